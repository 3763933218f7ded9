"""The mark on what the demo makes on a cluster of others: nothing without it is taken over there, or deleted."""

from typing import Any

import yaml

from demo.cluster_client import Cluster

LABEL, VALUE = "workslice.dev/made-by", "demo"
SELECTOR = f"{LABEL}={VALUE}"


def is_marked(found: dict[str, Any]) -> bool:
    """Whether the demo made this object."""
    return (found["metadata"].get("labels") or {}).get(LABEL) == VALUE


def marked(manifests: str) -> list[dict[str, Any]]:
    """Return the objects of YAML text with the mark."""
    objects = [one for one in yaml.safe_load_all(manifests) if one]
    for one in objects:
        one["metadata"]["labels"] = {**(one["metadata"].get("labels") or {}), LABEL: VALUE}
    return objects


def release_records(cluster: Cluster, release: str, namespace: str) -> list[dict[str, Any]]:
    """Return what Helm has stored of a release, one Secret a revision; it carries the labels of the release."""
    return cluster.objects("secrets", namespace, f"owner=helm,name={release}")
