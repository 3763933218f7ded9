"""A cluster of others (CLUSTER=kubeconfig): what the environment says of it. All of it is checked before anything is changed.

The context that the demo was started with is kept as a kubeconfig of its own: a `kubectl config use-context` meanwhile leads
neither the demo nor its removal to another cluster.
"""

import json
import os
from pathlib import Path

from workslice_cluster.cache_folder import cache_folder
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
            "KUBECONFIG names several files: write one (`kubectl config view --flatten --minify --raw > FILE`) and name that"
        )
    if not Path(named).is_file():
        raise ClusterError(f"KUBECONFIG names {named}, which is no file")
    return Path(named).absolute()


def kept_kubeconfig() -> Path:
    """Return where the kubeconfig of the demo's cluster is kept."""
    return cache_folder() / "given-cluster" / "kubeconfig"


def write_candidate(minified: str) -> Path:
    """Write a kubeconfig of one context (JSON) beside the kept one, for the owner's eyes only, and return its path.

    Raises ClusterError when the demo is on another cluster: its removal would no longer find that one.
    """
    if kept_kubeconfig().is_file():
        kept = json.loads(kept_kubeconfig().read_text())
        if _server(kept) != _server(json.loads(minified)):
            raise ClusterError(
                f"the demo is on another cluster, that of context {kept['current-context']} ({_server(kept)}): run "
                f"`make demo-down CLUSTER=kubeconfig` first, or delete {kept_kubeconfig()} when that cluster is gone"
            )
    candidate = kept_kubeconfig().with_name("candidate")
    candidate.parent.mkdir(parents=True, exist_ok=True)
    candidate.unlink(missing_ok=True)
    with os.fdopen(os.open(candidate, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(minified)
    return candidate


def context_name(kubeconfig: Path) -> str:
    """Return how a kept kubeconfig's context is called, with its API server."""
    content = json.loads(kubeconfig.read_text())
    return f"{content['current-context']} ({_server(content)})"


def _server(minified: dict[str, list[dict[str, dict[str, str]]]]) -> str:
    return minified["clusters"][0]["cluster"]["server"]


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
