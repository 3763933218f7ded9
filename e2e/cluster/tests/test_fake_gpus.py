"""The DaemonSet of the fake device plugin."""

from pathlib import Path

from workslice_cluster import fake_gpus, inventory
from workslice_cluster.inventory import DEFAULT


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


def test_an_install_waits_for_the_plugin_and_labels_every_node() -> None:
    commands: list[tuple[str, ...]] = []

    def kubectl(*words: str, stdin: str | None = None) -> str:
        commands.append(words)
        return ""

    fake_gpus.install(kubectl, "image:1", DEFAULT, Path("/engine"))
    assert [words[:2] for words in commands] == [
        ("apply", "-f"),
        ("rollout", "restart"),
        ("rollout", "status"),
        ("label", "nodes"),
    ]
    assert "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3" in commands[-1]
