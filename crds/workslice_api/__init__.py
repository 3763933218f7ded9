"""API of Workslice: resources, their CRDs, and the documents both sides read."""
