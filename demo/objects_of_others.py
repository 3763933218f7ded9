"""What a cluster of others has that the demo would change: it is refused before anything is."""

from demo.cluster_client import Cluster
from demo.example_manifests import NAMESPACE
from demo.made_by_demo import is_marked, release_records
from workslice_cluster.cluster_error import ClusterError

_POOLS = "workspacepools.workslice.dev"
_PROFILES = "workspaceprofiles.workslice.dev"
_ELSE = "Use another cluster, or remove that first"


def refuse_objects_of_others(cluster: Cluster, release: str, namespace: str) -> None:
    """Raise ClusterError when the demo would change what it has not made: its examples' names, or an installation."""
    has_crds = cluster.find("crd", _POOLS) is not None
    names = [("namespace", NAMESPACE), ("persistentvolume", "demo-models")]
    if has_crds:
        names += [(_PROFILES, "demo-short"), (_PROFILES, "demo-long")]
    for kind, name in names:
        if (found := cluster.find(kind, name)) and not is_marked(found):
            raise ClusterError(
                f"the cluster has the {kind.partition('.')[0]} {name} already, and the demo did not make it: nothing was "
                f"changed. {_ELSE}"
            )
    records = release_records(cluster, release, namespace)
    installed = f"release {release} in namespace {namespace}" if records else _installed(cluster)
    if installed and not (records and all(map(is_marked, records))):
        raise ClusterError(
            f"the cluster has Workslice already ({installed}), and the demo did not install it: nothing was changed. {_ELSE}; "
            "pools that it can serve are in examples"
        )
    if has_crds and not records:
        pools = [one["metadata"] for one in cluster.objects(_POOLS)]
        if others := [f"{one['namespace']}/{one['name']}" for one in pools if one["namespace"] != NAMESPACE]:
            raise ClusterError(
                f"the cluster has pools already ({', '.join(others)}), which the demo's operator would serve: nothing was "
                f"changed. {_ELSE}"
            )


def _installed(cluster: Cluster) -> str:
    """Say what made the installation whose ClusterRole is there, if any; that name is the same in all installations."""
    found = cluster.find("clusterrole", "workslice-operator")
    if not found:
        return ""
    by = found["metadata"].get("annotations") or {}
    if name := by.get("meta.helm.sh/release-name"):
        return f"release {name} in namespace {by.get('meta.helm.sh/release-namespace')}"
    return "its ClusterRole workslice-operator is there"
