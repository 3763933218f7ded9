"""The pool's PodDisruptionBudget: node drains take one replica at a time."""

from typing import Any

from workslice_api.pool import WorkspacePool
from workslice_operator.render.identity import child_metadata, engine_selector


def disruption_budget(pool: WorkspacePool) -> dict[str, Any]:
    """Manifest of the budget."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(pool),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": engine_selector(pool)},
            # A replica that is not ready serves nobody: it must never block the drain of a node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
