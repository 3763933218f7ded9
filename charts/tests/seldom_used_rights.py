"""Rights that the chart grants although an end-to-end run may not use them, each with what it is for."""

SELDOM: dict[str, str] = {}
"""`verb resource.group`, as workslice_cluster.used_rights writes a right → the reason."""
