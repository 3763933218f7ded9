"""The DaemonSet of the fake device plugin."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from workslice_cluster import fake_gpus, inventory
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.inventory import DEFAULT, Inventory


class Kubectl:
    """A kubectl that shows one node with this capacity, and the plugin of an earlier install with this inventory."""

    def __init__(self, capacity: dict[str, str], installed: Inventory | None = None) -> None:
        self.changes: list[tuple[str, ...]] = []
        node = {"metadata": {"name": "one"}, "status": {"capacity": capacity}}
        config = fake_gpus.manifests("image:1", installed, Path("/engine"))[1] if installed else None
        self._shown = {"nodes": json.dumps({"items": [node]}), "configmap": json.dumps(config) if config else ""}

    def __call__(self, *words: str, stdin: str | None = None) -> str:
        if words[0] == "get":
            return self._shown[words[1]]
        self.changes.append(words)
        return ""


def test_the_plugin_reads_the_inventory_from_where_it_is_mounted() -> None:
    _, config, daemon_set = fake_gpus.manifests("image:1", DEFAULT, Path("/engine"))
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    sources = {volume["name"]: volume for volume in pod["volumes"]}
    assert sources["inventory"]["configMap"]["name"] == config["metadata"]["name"]
    assert container["args"] == [mounts["inventory"], "--engine", "/engine"]
    ((file, content),) = config["data"].items()
    assert Path("/x", file) == inventory.path_of(Path("/x"))
    assert inventory.from_json(content) == DEFAULT


def test_another_inventory_makes_another_pod_and_the_same_one_does_not() -> None:
    def annotations(wanted: Inventory) -> object:
        return fake_gpus.manifests("image:1", wanted, Path("/engine"))[2]["spec"]["template"]["metadata"]["annotations"]

    assert annotations(DEFAULT) == annotations(DEFAULT)
    assert annotations(DEFAULT) != annotations(replace(DEFAULT, gpus=2))


def test_an_install_waits_for_the_plugin_labels_every_node_and_waits_for_the_slices() -> None:
    kubectl = Kubectl({"cpu": "8", "nvidia.com/mig-1g.10gb": "0"})
    fake_gpus.install(kubectl, "image:1", DEFAULT, Path("/engine"))
    commands = kubectl.changes
    assert [words[:2] for words in commands] == [
        ("apply", "-f"),
        ("rollout", "status"),
        ("label", "nodes"),
        ("wait", "nodes"),
        ("wait", "nodes"),
    ]
    assert "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3" in commands[2]
    assert r"--for=jsonpath={.status.allocatable.nvidia\.com/mig-1g\.10gb}=3" in commands[3]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
def test_a_node_that_has_gpus_is_left_alone_and_named(resource: str) -> None:
    kubectl = Kubectl({resource: "2"})
    with pytest.raises(ClusterError, match=f"the node one has {resource} already"):
        fake_gpus.install(kubectl, "image:1", DEFAULT, Path("/engine"))
    assert kubectl.changes == []


def test_the_fakes_of_an_earlier_install_may_be_replaced() -> None:
    kubectl = Kubectl({"nvidia.com/mig-1g.10gb": "3", "nvidia.com/mig-3g.40gb": "1"}, installed=DEFAULT)
    fake_gpus.install(kubectl, "image:2", DEFAULT, Path("/engine"))
    assert kubectl.changes[0][:2] == ("apply", "-f")


def test_gpus_beside_the_fakes_are_refused_all_the_same() -> None:
    kubectl = Kubectl({"nvidia.com/mig-1g.10gb": "3", "nvidia.com/gpu": "1"}, installed=DEFAULT)
    with pytest.raises(ClusterError, match=r"the node one has nvidia\.com/gpu already"):
        fake_gpus.install(kubectl, "image:1", DEFAULT, Path("/engine"))


def test_without_a_kubeconfig_no_cluster_is_guessed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    command = [sys.executable, "-m", "workslice_cluster.fake_gpus", "image:1", "--engine", "/engine"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr.startswith("error: KUBECONFIG is not set: let it name")
