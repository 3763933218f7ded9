"""Gives the nodes of any cluster (kind, say) GPUs that are not there: the fake device plugin as a DaemonSet, and labels.

`KUBECONFIG=… python -m workslice_cluster.fake_gpus IMAGE --engine FOLDER` installs it; the nodes must have the image
(`python -m workslice_cluster.images build device-plugin`) and the folder of the engine's packages.
"""

import argparse
import hashlib
import json
import os
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
_ESCAPED_DOT = r"\."


def manifests(image: str, wanted: Inventory, engine: Path) -> list[dict[str, Any]]:
    """Return namespace, inventory and DaemonSet; `engine` is the folder of the engine's packages on each node."""
    metadata = {"name": NAME, "namespace": NAMESPACE}
    content = inventory.to_json(wanted)
    # A running plugin has read its inventory once, at its start: another one makes another pod.
    mark = {"workslice.dev/inventory": hashlib.sha256(content.encode()).hexdigest()[:12]}
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
            "data": {inventory.path_of(Path()).name: content},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": mark}, "spec": pod},
            },
        },
    ]


def install(kubectl: Callable[..., str], image: str, wanted: Inventory, engine: Path) -> None:
    """Apply the manifests, label the nodes, and return when every node offers the slices.

    `kubectl` takes the words of a command and, as `stdin`, what it reads. Raises ClusterError when the plugin does not run, and
    before anything is changed when a node has GPUs of somebody else.
    """
    _refuse_other_gpus(kubectl)
    items = manifests(image, wanted, engine)
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    kubectl("rollout", "status", f"daemonset/{NAME}", "-n", NAMESPACE, "--timeout=100s")
    labels = [f"{name}={value}" for name, value in node_labels(wanted).items()]
    kubectl("label", "nodes", "--all", "--overwrite", *labels)
    for part in wanted.slices:
        offered = f"{{.status.allocatable.{part.resource.replace('.', _ESCAPED_DOT)}}}={part.count}"
        kubectl("wait", "nodes", "--all", f"--for=jsonpath={offered}", "--timeout=60s")


def _refuse_other_gpus(kubectl: Callable[..., str]) -> None:
    """Raise ClusterError when a node has nvidia.com/* resources that an earlier fake plugin did not provide.

    The kubelet takes a resource from whichever plugin registered last: pods would get fakes for the GPUs that they asked for.
    """
    config = kubectl("get", "configmap", NAME, "-n", NAMESPACE, "-o", "json", "--ignore-not-found")
    own = json.loads(config)["data"][inventory.path_of(Path()).name] if config.strip() else None
    fake = {part.resource for part in inventory.from_json(own).slices} if own else set()
    for node in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]:
        # Capacity: what is unhealthy is not allocatable. A resource whose plugin has gone stays, with 0.
        resources = node.get("status", {}).get("capacity", {})
        real = sorted(one for one in set(resources) - fake if one.startswith("nvidia.com/") and resources[one] != "0")
        if real:
            raise ClusterError(
                f"the node {node['metadata']['name']} has {', '.join(real)} already, which fake GPUs would replace: nothing was "
                "changed. Let KUBECONFIG name a cluster without GPUs"
            )


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m workslice_cluster.fake_gpus", description=__doc__)
    parser.add_argument("image", help="reference of the device plugin's image, as the nodes have it")
    parser.add_argument("--engine", type=Path, required=True, help="folder on every node with the engine's packages")
    parser.add_argument("--inventory", type=Path, metavar="FILE", help="JSON with the GPUs each node pretends to have")
    arguments = parser.parse_args()
    if not os.environ.get("KUBECONFIG"):
        raise ClusterError(
            "KUBECONFIG is not set: let it name the kubeconfig of the cluster whose nodes shall pretend to have GPUs"
        )
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
