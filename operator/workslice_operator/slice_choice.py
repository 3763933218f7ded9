"""Which of the slices that a profile names a pool takes: the first that the cluster has, in the order of the profile. Pure.

A choice stands until the pool's pods are replaced for another reason, for a slice that comes or goes is none to restart engines. Only a
pool without a single slice takes another one when that is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from workslice_api.pool import SliceStatus
from workslice_api.profile import SliceFit, WorkspaceProfile
from workslice_api.slices import slice_resource
from workslice_operator.observed import Observed
from workslice_operator.profile_fit import ProfileFit
from workslice_operator.slice_inventory import SliceInventory
from workslice_operator.template_record import read_record, rendered_record

_UNTOLD: Final = "chosen before; looked at again when the pool's pods are replaced next"


@dataclass(frozen=True)
class SliceChoice:
    """A slice, and why."""

    slice: str
    why: str
    """For people; empty when there was nothing to choose."""


def with_chosen_slice(observed: Observed, wanted: int, fit: ProfileFit | None) -> tuple[Observed, str]:
    """The same facts with a profile that names the pool's slice alone, for `wanted` replicas, at least one; and why it is that one. `fit`
    is what the profile states (profile_fit.stated_fit); None without a profile.
    """
    profile = observed.profile
    if profile is None or fit is None or len(profile.spec.slice.profiles) == 1:
        return observed, ""
    choice = pool_slice(observed, profile, max(1, wanted), fit.rows)
    return replace(observed, profile=_with_slice(profile, choice.slice)), choice.why


def pool_slice(observed: Observed, profile: WorkspaceProfile, wanted: int, rows: Sequence[SliceFit]) -> SliceChoice:
    """The slice of a pool: the one that its Deployment has, unless its pods are replaced anyway or none of them has a slice. `rows` tell on
    which slices the model has room.
    """
    current, before = _current(observed, profile), observed.pool.status.slices
    held = SliceStatus(profile=before.profile, granted=sum(pod.live and pod.scheduled for pod in observed.pods))
    chosen = choose_slice(profile, rows, observed.inventory, wanted, held)
    if current is None or _may_leave(observed, profile, current, chosen.slice, rows):
        return chosen
    if before.profile == current and before.message:
        return SliceChoice(current, before.message)
    return chosen if chosen.slice == current else SliceChoice(current, _UNTOLD)


def _may_leave(
    observed: Observed, profile: WorkspaceProfile, current: str, other: str, rows: Sequence[SliceFit]
) -> bool:
    """Whether no replica loses anything: none can run where it is, or none has its slice and another kind is free."""
    live = [pod for pod in observed.pods if pod.live]
    if any(one.profile == current and one.fits is False for one in rows) and not any(pod.ready for pod in live):
        return True
    if observed.inventory is None or any(pod.scheduled for pod in live):
        return False
    free = (observed.inventory.free(slice_resource(one), profile.spec.slice.products) for one in (current, other))
    return [bool(one) for one in free] == [False, True]


def choose_slice(
    profile: WorkspaceProfile,
    rows: Sequence[SliceFit],
    inventory: SliceInventory | None,
    wanted: int,
    held: SliceStatus,
) -> SliceChoice:
    """The first slice with room for the model of which there are enough for `wanted` replicas (those that the pool has count), else of
    which any are free, else that exists, else the first.
    """
    names = [one.profile for one in rows]
    fitting = [one.profile for one in rows if one.fits is not False] or names
    if inventory is None:
        return SliceChoice(fitting[0], "the first of slice.profiles, while the nodes cannot be read")
    products = profile.spec.slice.products
    free = {one: inventory.free(slice_resource(one), products) for one in names}
    if held.profile in free:
        free[held.profile] += held.granted
    existing = [one for one in fitting if inventory.exists(slice_resource(one), products)]
    enough = [one for one in existing if free[one] >= wanted]
    chosen = next(iter([*enough, *(one for one in existing if free[one]), *existing, *fitting]))
    passed_over = [_why_not(one, one in fitting, one in existing, free[one]) for one in names[: names.index(chosen)]]
    return SliceChoice(chosen, "; ".join(passed_over) or "the first of slice.profiles")


def _why_not(slice_: str, fits: bool, exists: bool, free: int) -> str:
    if not fits:
        return f"{slice_} has no room for the model"
    if not exists:
        return f"no node has a {slice_}"
    return f"too few {slice_} are free" if free else f"no {slice_} is free"


def _current(observed: Observed, profile: WorkspaceProfile) -> str | None:
    """The slice of the Deployment as it is, or of the version that was tried last; None when neither is what the profile now says,
    whatever the slice.
    """
    pool, running = observed.pool, observed.deployment
    if running is None:
        return None
    names = sorted(profile.spec.slice.profiles, key=lambda one: one != pool.status.slices.profile)
    fresh = {one: rendered_record(pool, _with_slice(profile, one)) for one in names}
    for name, record in fresh.items():
        if record.hash == running.template_hash:
            return name
    # Rendered by another version of the operator, or given up: neither is a reason to look for another slice.
    for remembered in map(read_record, (running.ready_template, running.failed_template)):
        for name, record in fresh.items():
            if remembered is not None and remembered.renders_like(record, pool, profile):
                return name
    return None


def _with_slice(profile: WorkspaceProfile, slice_: str) -> WorkspaceProfile:
    spec = profile.spec
    narrowed = spec.slice.model_copy(update={"profiles": [slice_]})
    return profile.model_copy(update={"spec": spec.model_copy(update={"slice": narrowed})})
