"""What all children of a pool share: name, labels, owner."""

from typing import Any

from workslice_api import names
from workslice_api.pool import WorkspacePool


def engine_selector(pool: WorkspacePool) -> dict[str, str]:
    """Labels by which Service, Deployment and the rest find the pool's engine pods; a Deployment can never change them."""
    return {names.COMPONENT_LABEL: names.ENGINE_COMPONENT, names.POOL_LABEL: pool.metadata.name}


def selector_text(pool: WorkspacePool) -> str:
    """The same selector as kubectl and the scale subresource write it."""
    return ",".join(f"{key}={value}" for key, value in sorted(engine_selector(pool).items()))


def child_metadata(pool: WorkspacePool) -> dict[str, Any]:
    """Metadata of a child; Kubernetes deletes it with the pool."""
    return {
        "name": names.child_name(pool.metadata.name),
        "namespace": pool.metadata.namespace,
        "labels": _child_labels(pool),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.POOL_KIND,
                "name": pool.metadata.name,
                "uid": pool.metadata.uid,
                "controller": True,
            }
        ],
    }


def _child_labels(pool: WorkspacePool) -> dict[str, str]:
    # The class is a live field: it may label children but never the pod template.
    return {
        **engine_selector(pool),
        names.MANAGED_BY_LABEL: names.MANAGED_BY,
        names.PROFILE_LABEL: pool.spec.profile_ref.name,
        names.CLASS_LABEL: pool.spec.request_class.name,
    }
