"""On a cluster of others the demo takes over and deletes nothing that it has not made, and stays on the cluster it began on."""

import json
import stat
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo import given_cluster, installation, remove
from demo.cluster_client import Cluster
from demo.example_manifests import apply_examples, example_manifests
from demo.installation import Images, helm_install
from demo.made_by_demo import LABEL, SELECTOR, VALUE, is_marked
from demo.objects_of_others import refuse_objects_of_others

Object = dict[str, Any]
CRDS = [{"kind": "crd", "metadata": {"name": f"workspace{one}.workslice.dev"}} for one in ("pools", "profiles")]
SLICES = {"nvidia.com/mig-1g.10gb": "3"}


def an_object(kind: str, name: str, *, by_demo: bool = False, **metadata: Any) -> Object:
    return {"kind": kind, "metadata": {"name": name, "labels": {LABEL: VALUE} if by_demo else {}} | metadata}


def a_release(*, by_demo: bool) -> list[Object]:
    """What there is after `helm install`: Helm's record and the ClusterRole."""
    by = {"meta.helm.sh/release-name": "workslice", "meta.helm.sh/release-namespace": "workslice-system"}
    return [
        an_object("secrets", "sh.helm.release.v1.workslice.v1", by_demo=by_demo),
        an_object("clusterrole", "workslice-operator", annotations=by),
    ]


@dataclass(frozen=True)
class Other(Cluster):
    """A cluster with these objects that notes how it would be changed."""

    kubeconfig: Path = Path("/none")
    kubectl_program: Path = Path("/none")
    helm_program: Path = Path("/none")
    server: str = "https://one"
    there: list[Object] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    applied: list[Object] = field(default_factory=list)

    def kubectl(self, *words: str, stdin: str | None = None, seconds: float = 60) -> str:
        if words[:2] == ("config", "view"):
            return json.dumps({"current-context": "admin", "clusters": [{"cluster": {"server": self.server}}]})
        if words[:2] == ("get", "nodes"):
            return json.dumps({"items": [{"spec": {}, "status": {"allocatable": SLICES}}]})
        if words[0] == "get":
            return ""
        if words[0] == "apply":
            text = stdin or ""
            self.applied.extend(json.loads(text)["items"] if text.startswith("{") else [])
        self.changes.append(" ".join(words))
        return ""

    def helm(self, *words: str, seconds: float = 300) -> str:
        self.changes.append("helm " + " ".join(words))
        return ""

    def find(self, kind: str, name: str, namespace: str = "default") -> Object | None:
        return next((one for one in self.objects(kind) if one["metadata"]["name"] == name), None)

    def objects(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        return [one for one in self.there if one["kind"] == kind]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "named").touch()
    monkeypatch.setenv("CLUSTER", "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "named"))
    monkeypatch.setenv("WORKSLICE_CACHE", str(tmp_path / "cache"))
    for name in given_cluster.IMAGES:
        monkeypatch.setenv(name, "registry.test/image:1")


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns what starts the demo on a cluster."""

    def on(cluster: Other) -> Cluster:
        monkeypatch.setattr(installation, "connect", lambda kubeconfig: replace(cluster, kubeconfig=kubeconfig))
        return installation.start_cluster()

    return on


def refuse(*there: Object) -> None:
    refuse_objects_of_others(Other(there=list(there)), "workslice", "workslice-system")


def test_a_cluster_with_nothing_of_workslice_is_taken() -> None:
    refuse(an_object("namespace", "default"), an_object("clusterrole", "admin"))


def test_what_an_earlier_run_has_made_is_gone_on_from() -> None:
    refuse(
        *CRDS,
        *a_release(by_demo=True),
        an_object("namespace", "demo", by_demo=True),
        an_object("persistentvolume", "demo-models", by_demo=True),
        an_object("workspacepools.workslice.dev", "theirs", namespace="team-a"),
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("namespace", "demo"),
        ("persistentvolume", "demo-models"),
        ("workspaceprofiles.workslice.dev", "demo-short"),
        ("workspaceprofiles.workslice.dev", "demo-long"),
    ],
)
def test_objects_of_others_with_the_names_of_the_demo_are_refused(kind: str, name: str) -> None:
    with pytest.raises(ClusterError, match=f"{name} already, and the demo did not make it: nothing was changed. Use"):
        refuse(*CRDS, an_object(kind, name))


def test_a_release_of_others_is_refused_whatever_it_is_called() -> None:
    with pytest.raises(ClusterError, match=r"release workslice in namespace workslice-system\), and the demo did not"):
        refuse(*a_release(by_demo=False))
    by = {"meta.helm.sh/release-name": "inference", "meta.helm.sh/release-namespace": "production"}
    with pytest.raises(ClusterError, match=r"release inference in namespace production\), and the demo did not"):
        refuse(an_object("clusterrole", "workslice-operator", annotations=by))


def test_an_installation_without_helm_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"has Workslice already .*ClusterRole workslice-operator"):
        refuse(an_object("clusterrole", "workslice-operator"))


def test_pools_that_the_new_operator_would_serve_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"pools already \(team-a/theirs\)"):
        refuse(*CRDS, an_object("workspacepools.workslice.dev", "theirs", namespace="team-a"))


def test_a_refused_cluster_is_not_changed_and_not_kept(start: Any) -> None:
    cluster = Other(there=a_release(by_demo=False))
    with pytest.raises(ClusterError, match="the demo did not install it"):
        start(cluster)
    assert cluster.changes == []
    assert list(given_cluster.kept_kubeconfig().parent.iterdir()) == []


def test_the_context_is_kept_for_the_owner_alone_and_used_from_there(start: Any) -> None:
    found = start(Other())
    assert found.kubeconfig == given_cluster.kept_kubeconfig()
    assert stat.S_IMODE(found.kubeconfig.stat().st_mode) == 0o600
    assert given_cluster.context_name(found.kubeconfig) == "admin (https://one)"


def test_while_the_demo_is_on_one_cluster_another_is_refused(start: Any) -> None:
    start(Other())
    start(Other())
    with pytest.raises(
        ClusterError, match=r"on another cluster, that of context admin \(https://one\): run `make demo-d"
    ):
        start(Other(server="https://two"))
    assert "https://one" in given_cluster.context_name(given_cluster.kept_kubeconfig())


def test_the_release_and_the_examples_carry_the_mark() -> None:
    cluster = Other()
    helm_install(cluster, Images("a:1", "b:1", "c:1"))
    assert f"--labels={SELECTOR}" in cluster.changes[-1].split()
    apply_examples(cluster, example_manifests("c:1", Path("/models"), "tiny"), "tiny", tell=lambda _: None)
    assert len(cluster.applied) == 7
    assert all(map(is_marked, cluster.applied))


def test_the_namespace_of_an_installation_to_be_is_left_as_it_is() -> None:
    cluster = Other(there=[an_object("namespace", "workslice-system")])
    helm_install(cluster, Images("a:1", "b:1", "c:1"))
    assert [change.split()[0] for change in cluster.changes] == ["helm"]


def test_a_removal_deletes_nothing_that_the_demo_did_not_make_and_says_so() -> None:
    cluster = Other(there=[*CRDS, *a_release(by_demo=False), an_object("namespace", "demo")])
    left = remove.remove_what_is_marked(cluster)
    assert [text.partition(",")[0] for text in left] == [
        "the namespace demo",
        "the release workslice in the namespace workslice-system",
    ]
    assert all(f"-l {SELECTOR}" in change for change in cluster.changes), "chosen by the mark, not by a name"


def test_a_removal_deletes_what_the_demo_made() -> None:
    cluster = Other(there=[*CRDS, *a_release(by_demo=True), an_object("namespace", "demo", by_demo=True)])
    assert remove.remove_what_is_marked(cluster) == []
    assert cluster.changes[1].startswith("delete namespace demo")
    assert cluster.changes[-1].startswith("helm uninstall workslice -n workslice-system")


def test_a_removal_acts_on_the_kept_context_once(
    start: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start(Other())
    monkeypatch.setenv("KUBECONFIG", "/another/cluster")
    used: list[Path] = []
    monkeypatch.setattr(remove, "connect", lambda kubeconfig: used.append(kubeconfig) or Other())
    remove.remove()
    assert used == [given_cluster.kept_kubeconfig()]
    assert "the cluster is that of context admin (https://one)" in capsys.readouterr().out
    with pytest.raises(ClusterError, match="nothing was changed"):
        remove.remove()
    assert len(used) == 1
