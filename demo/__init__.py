"""Installs Workslice on a cluster and shows what it does; the end-to-end tests install it in the same way."""
