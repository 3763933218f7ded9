"""CPU, host memory and slice of an engine container; what the profile leaves open follows from the size of the slice. Pure."""

from typing import Any, Final

from workslice_api.profile import WorkspaceProfile
from workslice_api.quantity import quantity_value
from workslice_api.slices import WHOLE, slice_resource

_DEFAULTS: Final[tuple[tuple[int, str, str], ...]] = (
    (1, "2", "8Gi"),
    (2, "2", "12Gi"),
    (4, "4", "16Gi"),
    (7, "8", "32Gi"),
)
"""CPU request and host memory of slices with up to so many sevenths of a GPU's compute: each engine has an API server and a core
process of its own, so seven engines on one GPU starve on the CPU before they use up the GPU.
"""


def engine_resources(profile: WorkspaceProfile) -> dict[str, Any]:
    """Requests and limits, for the first slice that the profile names."""
    slice_, cpu = profile.spec.slice.profiles[0], profile.spec.cpu
    default_cpu, default_host = next((cpu, host) for most, cpu, host in _DEFAULTS if _compute(slice_) <= most)
    host = profile.spec.memory.host or default_host
    limits = {"memory": host, slice_resource(slice_): "1"}
    if cpu.limit is not None:
        limits["cpu"] = cpu.limit
    return {"requests": {"cpu": cpu.request or _at_most(default_cpu, cpu.limit), "memory": host}, "limits": limits}


def _compute(slice_: str) -> int:
    return 7 if slice_ == WHOLE else int(slice_[0])


def _at_most(request: str, limit: str | None) -> str:
    return limit if limit is not None and quantity_value(limit) < quantity_value(request) else request
