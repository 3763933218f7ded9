"""Gives the nodes of any cluster (kind, say) GPUs that are not there: the fake device plugin as a DaemonSet, and labels.

`KUBECONFIG=… python -m workslice_cluster.fake_gpus IMAGE --engine FOLDER` installs it; the nodes must have the image
(`python -m workslice_cluster.images build device-plugin`) and the folder of the engine's packages.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workslice_cluster import client_tools, inventory
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.inventory import Inventory
from workslice_cluster.node_labels import node_labels

NAMESPACE = "fake-gpus"
NAME = "fake-device-plugin"
_SOCKETS = "/var/lib/kubelet/device-plugins"
_STATE = "/state"


def manifests(image: str, wanted: Inventory, engine: Path) -> list[dict[str, Any]]:
    """Return namespace, inventory and DaemonSet; `engine` is the folder of the engine's packages on each node."""
    metadata = {"name": NAME, "namespace": NAMESPACE}
    labels = {"app.kubernetes.io/name": NAME}
    container = {
        "name": "plugin",
        "image": image,
        "args": [_STATE, "--engine", str(engine)],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "sockets", "mountPath": _SOCKETS}, {"name": "inventory", "mountPath": _STATE}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [
            {"name": "sockets", "hostPath": {"path": _SOCKETS, "type": "Directory"}},
            {"name": "inventory", "configMap": {"name": NAME}},
        ],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            # The kubelet's folder is mounted: no stricter level allows that.
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {inventory.path_of(Path()).name: inventory.to_json(wanted)},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


def install(kubectl: Callable[..., str], image: str, wanted: Inventory, engine: Path) -> None:
    """Apply the manifests, wait until the plugin runs on every node, and label the nodes.

    `kubectl` takes the words of a command and, as `stdin`, what it reads. Raises ClusterError when the plugin does not run.
    """
    items = manifests(image, wanted, engine)
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    # Running pods read their inventory once, at their start.
    kubectl("rollout", "restart", f"daemonset/{NAME}", "-n", NAMESPACE)
    kubectl("rollout", "status", f"daemonset/{NAME}", "-n", NAMESPACE, "--timeout=100s")
    labels = [f"{name}={value}" for name, value in node_labels(wanted).items()]
    kubectl("label", "nodes", "--all", "--overwrite", *labels)


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workslice_cluster.fake_gpus", description=__doc__)
    parser.add_argument("image", help="reference of the device plugin's image, as the nodes have it")
    parser.add_argument("--engine", type=Path, required=True, help="folder on every node with the engine's packages")
    parser.add_argument("--inventory", type=Path, metavar="FILE", help="JSON with the GPUs each node pretends to have")
    arguments = parser.parse_args()
    program = client_tools.ensure(cache_folder())["kubectl"]

    def kubectl(*words: str, stdin: str | None = None) -> str:
        return run([program, *words], failure=f"kubectl {' '.join(words[:2])} failed", stdin=stdin)

    wanted = inventory.from_file(arguments.inventory) if arguments.inventory else inventory.DEFAULT
    install(kubectl, arguments.image, wanted, arguments.engine)


if __name__ == "__main__":
    try:
        _main()
    except ClusterError as error:
        sys.exit(f"error: {error}")
