"""A real Kubernetes cluster in private namespaces of one machine, for the end-to-end tests and the demo."""
