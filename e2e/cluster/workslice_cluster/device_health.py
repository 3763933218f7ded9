"""The file in the state folder by which tests make devices fail and recover; the device plugin follows it."""

import json
from pathlib import Path

from workslice_cluster import inventory
from workslice_cluster.cluster_error import ClusterError

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def path_of(state: Path) -> Path:
    """Return the file: a JSON object of device ID to `Healthy` or `Unhealthy`; who is not named is healthy."""
    return state / "device-health.json"


def read(state: Path) -> dict[str, str]:
    """Return what the file says; no file says nothing. Raises ClusterError when it is not such an object."""
    try:
        content = json.loads(path_of(state).read_text())
    except FileNotFoundError:
        return {}
    except json.JSONDecodeError as error:
        raise ClusterError(f"{path_of(state)} is not JSON: {error}") from error
    if not isinstance(content, dict) or not set(content.values()) <= {HEALTHY, UNHEALTHY}:
        raise ClusterError(f"{path_of(state)} must map device IDs to {HEALTHY} or {UNHEALTHY}")
    return content


def write(state: Path, device: str, health: str) -> None:
    """Set one device's health. Raises ClusterError for a device or a state that does not exist."""
    if health not in (HEALTHY, UNHEALTHY):
        raise ClusterError(f"{health!r} is no health: say {HEALTHY} or {UNHEALTHY}")
    devices = inventory.read(state).devices
    if device not in devices:
        raise ClusterError(f"there is no device {device}; the devices are {', '.join(devices)}")
    unfinished = path_of(state).with_suffix(".unfinished")
    unfinished.write_text(json.dumps(read(state) | {device: health}) + "\n")
    unfinished.rename(path_of(state))
