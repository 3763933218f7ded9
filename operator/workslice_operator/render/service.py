"""The pool's headless Service: routers watch its EndpointSlices, which copy its labels."""

from typing import Any

from workslice_api.names import ENGINE_PORT, ENGINE_PORT_NAME
from workslice_api.pool import WorkspacePool
from workslice_operator.render.identity import child_metadata, engine_selector


def service(pool: WorkspacePool) -> dict[str, Any]:
    """Manifest of the Service."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": child_metadata(pool),
        "spec": {
            "clusterIP": "None",
            "selector": engine_selector(pool),
            "ports": [
                {"name": ENGINE_PORT_NAME, "port": ENGINE_PORT, "targetPort": ENGINE_PORT_NAME, "protocol": "TCP"}
            ],
        },
    }
