"""What is behind `make demo-down`: removes what `make demo` started, and on a cluster of others nothing else."""

import sys

from demo import given_cluster, kind_cluster
from demo.cluster_choice import ClusterChoice, cluster_choice
from demo.cluster_client import Cluster, connect
from demo.example_manifests import NAMESPACE
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import RELEASE, cluster_tool
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
            _remove_from(connect(given_cluster.kubeconfig()))


def _remove_from(cluster: Cluster) -> None:
    """Remove the demo's pools, profiles and namespace, then the release; CRDs stay, as after every uninstall."""
    with step("removing the demo's pools"):
        if cluster.find("namespace", NAMESPACE):
            if cluster.find("crd", "workspacepools.workslice.dev"):
                cluster.kubectl("delete", "wspool", "short", "long", "-n", NAMESPACE, "--ignore-not-found", seconds=120)
                cluster.kubectl("delete", "wsprof", "demo-short", "demo-long", "--ignore-not-found")
            cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=170s", seconds=180)
        cluster.kubectl("delete", "pv", "demo-models", "--ignore-not-found")
    with step("uninstalling Workslice"):
        cluster.helm("uninstall", RELEASE, "-n", SYSTEM, "--ignore-not-found", "--wait", "--timeout", "3m")
    say(f"the CRDs and the namespace {SYSTEM} stay: docs/install.md, Uninstall, says how to remove them")


if __name__ == "__main__":
    try:
        remove()
    except ClusterError as error:
        sys.exit(f"error: {error}")
