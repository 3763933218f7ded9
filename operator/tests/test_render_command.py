import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pool_facts import LLAMA_SHAPE
from pool_objects import raw_pool, raw_profile

from workslice_operator.__main__ import main

NODE = {
    "kind": "Node",
    "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "H100"}},
    "status": {
        "allocatable": {"nvidia.com/mig-3g.40gb": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


class Shown:
    """What one run printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def objects(self) -> list[dict[str, Any]]:
        return [one for one in yaml.safe_load_all(self.out) if one]


def allowing(*namespaces: str) -> dict[str, Any]:
    raw = raw_profile()
    return raw | {"spec": raw["spec"] | {"allowedNamespaces": list(namespaces)}}


@pytest.fixture
def render(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*objects: Any, flags: tuple[str, ...] = (), nodes: list[Any] | None = None) -> Shown:
        file = tmp_path / "all.yaml"
        file.write_text(objects[0] if isinstance(objects[0], str) else yaml.safe_dump_all(objects))
        arguments = ["workslice-operator", "render", "-f", str(file), *flags]
        if nodes is not None:
            (tmp_path / "nodes.yaml").write_text(yaml.safe_dump({"kind": "List", "items": nodes}))
            arguments += ["--inventory", str(tmp_path / "nodes.yaml")]
        monkeypatch.setattr("sys.argv", arguments)
        return Shown(main(), *capsys.readouterr())

    return run


def test_pool_and_profile_become_what_the_operator_would_apply(render: Any) -> None:
    shown = render(raw_pool(), raw_profile())
    assert (shown.status, shown.err) == (0, "")
    kinds = [one["kind"] for one in shown.objects]
    assert kinds == ["NetworkPolicy", "Service", "PodDisruptionBudget", "Deployment"]
    assert {one["metadata"]["namespace"] for one in shown.objects} == {"shop"}


def test_a_pool_without_a_namespace_gets_the_one_of_the_flag(render: Any) -> None:
    pool = raw_pool()
    del pool["metadata"]["namespace"]
    shown = render(pool, raw_profile(), flags=("-n", "chats"))
    assert {one["metadata"]["namespace"] for one in shown.objects} == {"chats"}


def test_the_network_policy_lets_the_charts_routers_in(render: Any) -> None:
    policy = render(raw_pool(), raw_profile(), flags=("--release", "llm", "--system-namespace", "infra")).objects[0]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"][0]["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "llm"
    assert rule["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "infra"}


def test_nodes_tell_whether_the_cluster_has_the_slice(render: Any) -> None:
    shown = render(raw_pool(), raw_profile(), nodes=[NODE])
    assert "Accepted=False (SliceNotInCluster): no node has 1g.10gb slices (in the cluster: 3g.40gb)" in shown.out
    assert len(shown.objects) == 4


def test_a_file_of_pods_is_no_inventory(render: Any) -> None:
    shown = render(raw_pool(), raw_profile(), nodes=[{"kind": "Pod", "metadata": {"name": "a"}}])
    assert shown.status == 2
    assert "there is no Node in it" in shown.err


def test_objects_of_others_are_left_out_with_a_note(render: Any) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    shown = render(namespace, raw_pool(), raw_profile())
    assert shown.status == 0
    assert "document 1: Namespace shop is not Workslice's and is left out" in shown.err


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        (("a: [",), "all.yaml: not YAML: "),
        (("- 5",), "not a Kubernetes object"),
        (("a: " + "[" * 5000,), "all.yaml: not YAML: it is nested too deeply"),
        (("a: 2026-13-01",), "all.yaml: not YAML: month must be in 1..12"),
        (("a: " + "9" * 5000,), "all.yaml: not YAML: Exceeds the limit"),
        (
            (raw_pool("chat", "Shop & Co"), raw_profile()),
            "WorkspacePool chat: metadata.namespace: 'Shop & Co' is no name of a namespace",
        ),
        ((raw_pool() | {"kind": "WorkspacePol"},), "workslice.dev has no kind WorkspacePol: write WorkspaceProfile or"),
        ((raw_pool(),), "WorkspacePool shop/chat: its profile small is in none of the files: add it with -f"),
        ((raw_pool(), raw_pool(), raw_profile()), "document 2: WorkspacePool chat is there twice"),
        ((raw_pool(replicas=-1), raw_profile()), "document 1: WorkspacePool chat: spec.replicas: Input should be"),
        (({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}},), "the files hold no WorkspacePool"),
        (
            (raw_pool(requestClass={"name": "all", "maxTotalTokens": 9000}), raw_profile()),
            "WorkspacePool shop/chat: requestClass all takes requests of 9000 tokens",
        ),
        (
            (raw_pool(), allowing("lab")),
            "WorkspacePool shop/chat: WorkspaceProfile small may not be used in namespace shop: add shop to allowedNamespaces",
        ),
        ((raw_pool(), allowing()), "WorkspaceProfile small: spec.allowedNamespaces: allowedNamespaces is empty: name"),
        (
            (raw_pool(), raw_pool("other", "lab", uid="z"), raw_profile()),
            "WorkspacePool lab/other: the model name tiny belongs to pool shop/chat",
        ),
    ],
)
def test_what_cannot_be_applied_is_said_and_nothing_printed(render: Any, objects: Any, said: str) -> None:
    shown = render(*objects)
    assert (shown.status, shown.out) == (2, "")
    assert said in shown.err


@pytest.mark.parametrize("flag", ["-n", "--system-namespace"])
def test_a_flag_that_names_no_namespace_is_refused(render: Any, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        render(raw_pool(), raw_profile(), flags=(flag, "Shop & Co"))
    assert "'Shop & Co' is no name of a namespace" in capsys.readouterr().err


@pytest.mark.parametrize(
    "further",
    [
        {"metadata": 5},
        {"metadata": {}},
        {"status": 5},
        {"status": {"allocatable": {"nvidia.com/mig-1g.10gb": "lots"}}},
        {"status": {"conditions": ["Ready"]}},
    ],
    ids=str,
)
def test_nodes_that_are_none_are_said(render: Any, further: dict[str, Any]) -> None:
    shown = render(raw_pool(), raw_profile(), nodes=[NODE | further])
    assert (shown.status, shown.out) == (2, "")
    assert "nodes.yaml: not nodes and pods as the API has them" in shown.err
    assert shown.err.endswith(": kubectl get nodes,pods -A -o yaml\n")


def test_a_reader_who_has_read_enough_ends_it_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([raw_pool(), raw_profile()]))
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "workslice_operator", "render", "-f", str(tmp_path / "all.yaml")]
    with os.fdopen(writing, "w") as output:
        ended = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (2, "")


def test_a_fault_of_the_program_is_no_difference(render: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workslice_operator.command_line.rendered", lambda *_: 1 / 0)
    shown = render(raw_pool(), raw_profile())
    assert (shown.status, shown.out) == (2, "")
    assert "please report it" in shown.err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["workslice-operator", "render", "-f", "nowhere.yaml"])
    assert main() == 2
    assert capsys.readouterr().err == "nowhere.yaml: No such file or directory\n"


def sized(**further: Any) -> dict[str, Any]:
    raw = raw_profile()
    spec = {"model": {"source": "org/model", "shape": LLAMA_SHAPE}, "slice": {"profiles": ["3g.40gb"]}} | further
    return raw | {"spec": raw["spec"] | spec}


def test_what_the_model_has_of_each_slice_is_told_before_its_pools(render: Any) -> None:
    shown = render(raw_pool(), sized(slice={"profiles": ["3g.40gb"], "products": ["NVIDIA-H100-80GB-HBM3"]}))
    before = shown.out.partition("# WorkspacePool")[0].splitlines()
    assert before[0] == "# WorkspaceProfile small"
    assert before[-2].split()[:3] == ["#", "SLICE", "PRODUCT"]
    assert before[-1].split()[1] == "3g.40gb"
    assert before[-1].endswith("yes")


def test_a_model_without_room_is_refused_with_the_numbers(render: Any) -> None:
    small = {"profiles": ["1g.10gb"], "products": ["NVIDIA-H100-80GB-HBM3"]}
    shown = render(raw_pool(), sized(slice=small))
    assert (shown.status, shown.out) == (2, "")
    assert "WorkspacePool shop/chat: WorkspaceProfile small fits no slice that it names" in shown.err
