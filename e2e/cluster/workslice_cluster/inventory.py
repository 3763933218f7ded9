"""The GPUs that the fake device plugin pretends to have: one product per node, cut into slices."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workslice_cluster.cluster_error import ClusterError

WHOLE = "whole"
MOST_DEVICES = 1000
_PROFILE = re.compile(r"\d+g\.\d+gb([+-][a-z][a-z.]*)?")


@dataclass(frozen=True)
class Slice:
    """Equal slices: MIG profile name (or `whole` for undivided GPUs), how many, and what one of them has."""

    profile: str
    count: int
    memory_mebibytes: int
    multiprocessors: int

    @property
    def resource(self) -> str:
        """Extended resource name of the device plugin's strategy `mixed`."""
        return "nvidia.com/gpu" if self.profile == WHOLE else f"nvidia.com/mig-{self.profile.replace('+', '.')}"

    @property
    def devices(self) -> tuple[str, ...]:
        """Device IDs, as the kubelet and NVIDIA_VISIBLE_DEVICES see them."""
        prefix = "GPU" if self.profile == WHOLE else f"MIG-{self.profile}"
        return tuple(f"{prefix}-{index}" for index in range(self.count))


@dataclass(frozen=True)
class Inventory:
    """The GPUs of one node."""

    product: str
    gpus: int
    memory_mebibytes: int
    slices: tuple[Slice, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """IDs of all devices of the node."""
        return tuple(device for part in self.slices for device in part.devices)


# One H100 cut as 3g.40gb at memory slots 4-7 and three 1g.10gb below: memory and multiprocessors as that GPU reports them.
DEFAULT = Inventory("NVIDIA-H100-80GB-HBM3", 1, 81559, (Slice("1g.10gb", 3, 9984, 16), Slice("3g.40gb", 1, 40320, 60)))


def to_json(inventory: Inventory) -> str:
    """Return the inventory as the JSON that `from_json` reads."""
    return json.dumps(asdict(inventory), indent=2) + "\n"


def from_file(path: Path) -> Inventory:
    """Read an inventory that somebody wrote by hand. Raises ClusterError that says what is wrong with it."""
    try:
        return from_json(path.read_text())
    except OSError as error:
        raise ClusterError(f"the inventory cannot be read: {error}") from error


def from_json(text: str) -> Inventory:
    """Read an inventory. Raises ClusterError that names the wrong field."""
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterError(f"the inventory is not JSON: {error}") from error
    own = _checked(fields, {"product": str, "gpus": int, "memory_mebibytes": int, "slices": list}, "the inventory")
    kinds = {"profile": str, "count": int, "memory_mebibytes": int, "multiprocessors": int}
    slices = tuple(Slice(**_checked(part, kinds, f"slices[{i}]")) for i, part in enumerate(own.pop("slices")))
    profiles = [part.profile for part in slices]
    for profile in profiles:
        if profile != WHOLE and not _PROFILE.fullmatch(profile):
            raise ClusterError(f"{profile!r} is not a MIG profile name such as 1g.10gb or 1g.10gb+me, nor {WHOLE!r}")
        if profiles.count(profile) > 1:
            raise ClusterError(f"the inventory names profile {profile} twice")
    if sum(part.count for part in slices) > MOST_DEVICES:
        raise ClusterError(f"the inventory has more than {MOST_DEVICES} devices")
    return Inventory(**own, slices=slices)


def _checked(fields: Any, kinds: Mapping[str, type], where: str) -> dict[str, Any]:
    if not isinstance(fields, dict) or set(fields) != set(kinds):
        raise ClusterError(f"{where} must be an object with exactly the fields {', '.join(kinds)}")
    for name, kind in kinds.items():
        value = fields[name]
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and value < 0):
            raise ClusterError(f"{where}: {name} must be a {'number not below 0' if kind is int else kind.__name__}")
    return dict(fields)


def path_of(state: Path) -> Path:
    """Return where a running cluster keeps its inventory."""
    return state / "inventory.json"


def read(state: Path) -> Inventory:
    """Return the inventory of the cluster in this state folder. Raises ClusterError when there is no cluster."""
    try:
        return from_json(path_of(state).read_text())
    except FileNotFoundError as error:
        raise ClusterError("the cluster is not up: run `python -m workslice_cluster up`") from error
