"""The DaemonSet of the fake device plugin."""

from dataclasses import replace
from pathlib import Path

from workslice_cluster import fake_gpus, inventory
from workslice_cluster.inventory import DEFAULT, Inventory


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
    commands: list[tuple[str, ...]] = []

    def kubectl(*words: str, stdin: str | None = None) -> str:
        commands.append(words)
        return ""

    fake_gpus.install(kubectl, "image:1", DEFAULT, Path("/engine"))
    assert [words[:2] for words in commands] == [
        ("apply", "-f"),
        ("rollout", "status"),
        ("label", "nodes"),
        ("wait", "nodes"),
        ("wait", "nodes"),
    ]
    assert "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3" in commands[2]
    assert r"--for=jsonpath={.status.allocatable.nvidia\.com/mig-1g\.10gb}=3" in commands[3]
