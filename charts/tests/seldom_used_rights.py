"""Rights that the chart grants although an end-to-end run may not use them, each with what it is for."""

SELDOM = {
    "create leases.coordination.k8s.io in workslice-system": "Once in a cluster's life, by the first operator; the log of an older "
    "cluster may no longer have it.",
}
"""`verb resource.group`, as workslice_cluster.used_rights writes a right → the reason."""
