"""The fake device plugin: the kubelet's wire format, what a container gets, and health from a file."""

import threading
from pathlib import Path
from typing import Any

import pytest

from workslice_cluster import device_health, inventory
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.device_plugin import Plugin, allocation, preferred
from workslice_cluster.device_plugin_api import MESSAGES, decode, encode
from workslice_cluster.inventory import DEFAULT


def test_a_registration_has_the_bytes_that_the_kubelet_expects() -> None:
    request = MESSAGES["RegisterRequest"](version="v1beta1", endpoint="a.sock", resource_name="nvidia.com/gpu")
    assert encode(request) == b"\n\x07v1beta1\x12\x06a.sock\x1a\x0envidia.com/gpu"


def test_a_device_list_has_the_bytes_that_the_kubelet_expects() -> None:
    answer = MESSAGES["ListAndWatchResponse"](devices=[MESSAGES["Device"](ID="a", health="Healthy")])
    assert encode(answer) == b"\n\x0c\n\x01a\x12\x07Healthy"


def test_an_allocation_request_of_the_kubelet_is_understood() -> None:
    request = decode("AllocateRequest")(b"\n\x06\n\x01a\n\x01b\n\x03\n\x01c")
    assert [list(one.devices_ids) for one in request.container_requests] == [["a", "b"], ["c"]]


def test_a_container_gets_its_devices_and_the_engine_read_only() -> None:
    answer = allocation(["MIG-1g.10gb-0"], Path("/engine"))
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "MIG-1g.10gb-0"}
    mount = answer.mounts[0]
    assert (mount.host_path, mount.container_path, mount.read_only) == ("/engine", "/opt/vllm", True)
    assert answer.devices[0].host_path == "/dev/null"


def test_demanded_devices_come_first() -> None:
    assert preferred(["c", "a", "b"], ["c"], 2) == ["c", "a"]


class Stream:
    """The kubelet's end of a ListAndWatch call."""

    def is_active(self) -> bool:
        return True


def health_of(answer: Any) -> dict[str, str]:
    return {device.ID: device.health for device in answer.devices}


def test_a_changed_health_is_sent_at_once_and_only_once() -> None:
    plugin = Plugin(DEFAULT.slices[0])
    stream = plugin._list_and_watch(None, Stream())  # type: ignore[arg-type]
    assert set(health_of(next(stream)).values()) == {"Healthy"}
    received: list[dict[str, str]] = []
    reader = threading.Thread(target=lambda: received.append(health_of(next(stream))))
    reader.start()
    plugin.follow({"MIG-1g.10gb-1": "Unhealthy", "MIG-3g.40gb-0": "Unhealthy"})
    reader.join(5)
    assert received == [{"MIG-1g.10gb-0": "Healthy", "MIG-1g.10gb-1": "Unhealthy", "MIG-1g.10gb-2": "Healthy"}]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    inventory.path_of(tmp_path).write_text(inventory.to_json(DEFAULT))
    return tmp_path


def test_health_is_kept_for_each_device(state: Path) -> None:
    device_health.write(state, "MIG-1g.10gb-0", "Unhealthy")
    device_health.write(state, "MIG-3g.40gb-0", "Unhealthy")
    device_health.write(state, "MIG-1g.10gb-0", "Healthy")
    assert device_health.read(state) == {"MIG-1g.10gb-0": "Healthy", "MIG-3g.40gb-0": "Unhealthy"}


def test_an_unknown_device_is_refused_with_the_known_ones(state: Path) -> None:
    with pytest.raises(ClusterError, match=r"no device MIG-7; the devices are MIG-1g\.10gb-0"):
        device_health.write(state, "MIG-7", "Unhealthy")


def test_an_unknown_health_is_refused(state: Path) -> None:
    with pytest.raises(ClusterError, match="Healthy or Unhealthy"):
        device_health.write(state, "MIG-1g.10gb-0", "Ill")


def test_a_broken_health_file_is_an_error_not_silence(state: Path) -> None:
    device_health.path_of(state).write_text('{"MIG-1g.10gb-0": "Ill"}')
    with pytest.raises(ClusterError, match="must map device IDs"):
        device_health.read(state)
