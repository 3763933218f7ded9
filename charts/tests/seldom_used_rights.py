"""Rights that the chart grants although an end-to-end run may not use them, each with what it is for."""

SELDOM = {
    "create leases.coordination.k8s.io in workslice-system": "Once in a cluster's life, by the first operator; the log of an older "
    "cluster may no longer have it.",
    "get pods/log": "Only after an engine ended with exit code 0, as when its core has died (test_engine_crashes.py, a soak test): "
    "nothing but its log tells why.",
}
"""`verb resource.group`, as workslice_cluster.used_rights writes a right → the reason."""
