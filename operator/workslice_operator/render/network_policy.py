"""The pool's NetworkPolicy: only routers and the operator reach engines, whose API has no keys of its own."""

from collections.abc import Mapping
from typing import Any

from workslice_api.names import ENGINE_PORT
from workslice_api.pool import WorkspacePool
from workslice_operator.installation import Installation
from workslice_operator.render.identity import child_metadata, engine_selector


def network_policy(pool: WorkspacePool, installation: Installation) -> dict[str, Any]:
    """Manifest of the policy. Without any selector in the installation it lets nobody in."""
    peers = [
        _peer(installation.namespace, labels)
        for labels in (installation.router_selector, installation.operator_selector)
        if labels
    ]
    # A rule with an empty `from` would let everyone in: with no peer there must be no rule.
    rules = [{"from": peers, "ports": [{"protocol": "TCP", "port": ENGINE_PORT}]}] if peers else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": child_metadata(pool),
        "spec": {"podSelector": {"matchLabels": engine_selector(pool)}, "policyTypes": ["Ingress"], "ingress": rules},
    }


def _peer(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(sorted(labels.items()))},
    }
