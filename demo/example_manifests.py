"""The manifests of examples/embedded-cluster with their variables filled in.

`python -m demo.example_manifests [tiny|smollm2]` prints them, ready for `kubectl apply -f -`.
"""

import contextlib
import string
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from demo.cluster_choice import ClusterChoice, cluster_choice
from demo.cluster_client import Cluster
from demo.made_by_demo import marked
from demo.waiting import NotYet, wait_until
from workslice_cluster import images, models
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

FILES = ("namespace.yaml", "model-volume.yaml", "profiles.yaml", "pools.yaml")
NAMESPACE = "demo"
SLICES = ("1g.10gb", "3g.40gb")
"""What the embedded cluster's node offers: three of the first, one of the second."""


def example_manifests(engine_image: str, models_directory: Path, model: str, slices: tuple[str, str] = SLICES) -> str:
    """Return the YAML of all examples for the embedded cluster, in the order in which they must be applied.

    `slices` are those of the short and of the long pool.
    """
    folder = repository() / "examples" / "embedded-cluster"
    text = "\n---\n".join((folder / name).read_text() for name in FILES)
    variables = {"ENGINE_IMAGE": engine_image, "MODELS_DIRECTORY": str(models_directory), "MODEL": model}
    variables |= {"SHORT_SLICE": slices[0], "LONG_SLICE": slices[1]}
    return string.Template(text).substitute(variables)


def apply_examples(cluster: Cluster, manifests: str, model: str, *, tell: Callable[[str], None] = print) -> None:
    """Apply the examples; pools that serve another model go first, since a pool's model cannot change.

    On a cluster of others they carry the demo's mark.
    """
    wanted = marked(manifests) if cluster_choice() is ClusterChoice.KUBECONFIG else manifests
    for name in ("short", "long"):
        pool = cluster.find("workspacepool", name, NAMESPACE)
        if pool and pool["spec"]["model"] != model:
            tell(f"the pool {name} serves {pool['spec']['model']}: deleting it")
            cluster.kubectl("delete", "workspacepool", name, "-n", NAMESPACE, "--wait", seconds=120)

    def applied() -> str:
        try:
            return cluster.apply(wanted)
        except ClusterError as error:
            # Right after the CRDs' creation the API server may not serve them yet.
            if "no matches for kind" in str(error) or "initializing" in str(error):
                raise NotYet(str(error)) from error
            raise

    for line in wait_until("the API server to accept the examples", applied, seconds=60).splitlines():
        tell(line)


def main(arguments: Sequence[str]) -> int:
    """Print the manifests for the model that the first argument names; return the exit status."""
    chosen = arguments[0] if arguments else "tiny"
    try:
        with contextlib.redirect_stdout(sys.stderr):  # progress is not for kubectl
            folder = models.ensure(chosen).parent
            _, engine_image = images.ensure("vllm")
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(example_manifests(engine_image, folder, chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
