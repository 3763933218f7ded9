"""A cluster of others (CLUSTER=kubeconfig): what the environment says of it. All of it is checked before anything is changed."""

import os
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError

IMAGES = ("WORKSLICE_OPERATOR_IMAGE", "WORKSLICE_ROUTER_IMAGE", "WORKSLICE_ENGINE_IMAGE")
MODELS = "WORKSLICE_MODELS"


def kubeconfig() -> Path:
    """Return the file that KUBECONFIG names. Raises ClusterError when it names none, or several."""
    named = os.environ.get("KUBECONFIG", "")
    if not named:
        raise ClusterError(
            "CLUSTER is kubeconfig, and KUBECONFIG is not set: let it name the kubeconfig of the cluster"
        )
    if os.pathsep in named:
        raise ClusterError(
            "KUBECONFIG names several files: write one (`kubectl config view --flatten --minify > FILE`) and name that"
        )
    if not Path(named).is_file():
        raise ClusterError(f"KUBECONFIG names {named}, which is no file")
    return Path(named).absolute()


def image_references() -> list[str]:
    """Return the images of operator, router and engine. Raises ClusterError that names what is missing or has no tag."""
    if missing := [name for name in IMAGES if not os.environ.get(name)]:
        raise ClusterError(
            f"nothing can be loaded into a cluster of others: set {', '.join(missing)} to images that its nodes have or "
            "can pull (docs/install.md says how to build them)"
        )
    for name in IMAGES:
        repository, _, tag = os.environ[name].rpartition(":")
        if not repository or "/" in tag or "@" in repository:
            raise ClusterError(f"{name} is {os.environ[name]!r}: give it as NAME:TAG")
    return [os.environ[name] for name in IMAGES]


def models_directory(model: str) -> Path:
    """Return the folder on the nodes with one folder a model. Raises ClusterError when it is not named."""
    named = os.environ.get(MODELS, "")
    if not named.startswith("/"):
        raise ClusterError(
            f"{MODELS} must name a folder (an absolute path) that every node has and that holds the model {model}: "
            f"`python -m workslice_cluster.models {model}` makes one and prints where"
        )
    return Path(named)
