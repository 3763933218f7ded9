"""A cluster of kind (CLUSTER=kind): Kubernetes in Docker containers, with fake GPUs.

`python -m demo.kind_cluster` prints the configuration that it is made with.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workslice_cluster import engine_environment, fake_gpus, images, inventory, models
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.node_labels import node_labels

NAME = "workslice"
_HINT = "install kind (https://kind.sigs.k8s.io) and start Docker, or use CLUSTER=embedded, which needs neither"


def configuration(mounted: list[Path]) -> dict[str, Any]:
    """Return kind's cluster configuration: one node, labelled as GPU feature discovery would, that sees these folders.

    Each folder has the same path on the node, so that manifests are those of the embedded cluster.
    """
    mounts = [{"hostPath": str(folder), "containerPath": str(folder), "readOnly": True} for folder in mounted]
    node = {"role": "control-plane", "labels": node_labels(inventory.DEFAULT), "extraMounts": mounts}
    return {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "name": NAME, "nodes": [node]}


def kubeconfig() -> Path:
    """Return where the kubeconfig of the cluster is kept; that of the user is left alone."""
    return cache_folder() / "kind" / "kubeconfig"


def start() -> Path:
    """Make the cluster unless kind has one of this name, and return its kubeconfig.

    Raises ClusterError when kind is not installed or does not reach Docker, or has a cluster of this name that is not the demo's.
    """
    mounted = _mounted()
    there = NAME in _kind("get", "clusters").split()
    if there and not kubeconfig().is_file():
        raise ClusterError(
            f"kind has a cluster {NAME} that the demo did not make, or did not finish: delete it (`kind delete cluster --name "
            f"{NAME}`) unless it is of use, or name it with CLUSTER=kubeconfig"
        )
    kubeconfig().parent.mkdir(parents=True, exist_ok=True)
    if there:
        _kind("export", "kubeconfig", "--name", NAME, "--kubeconfig", str(kubeconfig()))
        return kubeconfig()
    for folder in mounted:
        folder.mkdir(parents=True, exist_ok=True)
    written = kubeconfig().with_name("cluster.yaml")
    written.write_text(json.dumps(configuration(mounted), indent=2) + "\n")  # JSON is YAML
    _kind(
        *("create", "cluster", "--name", NAME, "--config", str(written)),
        *("--kubeconfig", str(kubeconfig()), "--wait", "180s"),
        seconds=900,
    )
    return kubeconfig()


def load(*archives: Path) -> None:
    """Load OCI archives of images into the node."""
    for archive in archives:
        _kind("load", "image-archive", str(archive), "--name", NAME, seconds=600)


def add_gpus(kubectl: Callable[..., str]) -> None:
    """Run the fake device plugin on the node; `kubectl` runs the words of a command."""
    engine_environment.ensure()
    archive, reference = images.ensure("device-plugin")
    load(archive)
    fake_gpus.install(kubectl, reference, inventory.DEFAULT, engine_environment.site_packages())


def delete() -> None:
    """Delete the cluster that the demo has made. Raises ClusterError when it has made none: what is there is somebody else's."""
    if not kubeconfig().is_file():
        raise ClusterError(
            f"the demo has made no cluster of kind ({kubeconfig()} is not there): nothing was deleted. `kind get clusters` shows "
            "what there is"
        )
    _kind("delete", "cluster", "--name", NAME, "--kubeconfig", str(kubeconfig()))
    kubeconfig().unlink(missing_ok=True)


def _mounted() -> list[Path]:
    """What the node must see: the models, and the engines' packages, whose folder's name changes with their lock."""
    return [models.folder(), engine_environment.folder().parent]


def _kind(*words: str, seconds: float = 120) -> str:
    return run(["kind", *words], failure=f"kind {' '.join(words[:2])} failed ({_HINT})", timeout=seconds)


if __name__ == "__main__":
    print(json.dumps(configuration(_mounted()), indent=2))
