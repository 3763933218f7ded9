"""What is behind `make demo-down`: removes what `make demo` started, and on a cluster of others nothing else."""

import sys

from demo import given_cluster, kind_cluster
from demo.cluster_choice import ClusterChoice, cluster_choice
from demo.cluster_client import Cluster, connect
from demo.example_manifests import NAMESPACE
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import RELEASE, cluster_tool
from demo.made_by_demo import SELECTOR, is_marked, release_records
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.progress import say, step


def remove() -> None:
    """Remove it. Raises ClusterError when something does not go."""
    match cluster_choice():
        case ClusterChoice.EMBEDDED:
            cluster_tool("down")
        case ClusterChoice.KIND:
            with step("deleting the cluster of kind"):
                kind_cluster.delete()
        case ClusterChoice.KUBECONFIG:
            _remove_from_given_cluster()


def _remove_from_given_cluster() -> None:
    kept = given_cluster.kept_kubeconfig()
    if not kept.is_file():
        raise ClusterError(
            f"`make demo` has left nothing on a cluster of others that is known here ({kept} is not there): nothing was changed. "
            f"If it ran elsewhere, `kubectl get namespaces -l {SELECTOR}` shows its namespace"
        )
    say(f"the cluster is that of context {given_cluster.context_name(kept)}")
    left = remove_what_is_marked(connect(kept))
    say(f"left as they are: the CRDs, the namespace {SYSTEM} (docs/install.md, Uninstall, says how to remove them)")
    for text in left:
        say(f"left as well: {text}")
    kept.unlink()


def remove_what_is_marked(cluster: Cluster) -> list[str]:
    """Remove the demo's pools, profiles, namespace and release, as far as the demo made them; return what it did not make."""
    left: list[str] = []
    with step("removing the demo's pools"):
        has_crds = cluster.find("crd", "workspacepools.workslice.dev") is not None
        if found := cluster.find("namespace", NAMESPACE):
            if is_marked(found):
                if has_crds:
                    cluster.kubectl("delete", "wspool", "-l", SELECTOR, "-n", NAMESPACE, seconds=120)
                cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=170s", seconds=180)
            else:
                left.append(f"the namespace {NAMESPACE}, which the demo did not make")
        if has_crds:
            cluster.kubectl("delete", "wsprof", "-l", SELECTOR)
        cluster.kubectl("delete", "pv", "-l", SELECTOR)
    with step("uninstalling Workslice"):
        records = release_records(cluster, RELEASE, SYSTEM)
        if records and all(map(is_marked, records)):
            cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--ignore-not-found", "--wait", "--timeout", "3m")
        elif records:
            left.append(f"the release {RELEASE} in the namespace {SYSTEM}, which the demo did not install")
    return left


if __name__ == "__main__":
    try:
        remove()
    except ClusterError as error:
        sys.exit(f"error: {error}")
