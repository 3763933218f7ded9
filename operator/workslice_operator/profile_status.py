"""The status of a WorkspaceProfile: whether the cluster has its slices, whether its model fits them, and which pools use it. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from workslice_api.conditions import condition, merge_conditions
from workslice_api.names import ConditionType, Reason
from workslice_api.pool import SliceStatus, WorkspacePool
from workslice_api.profile import SliceFit, WorkspaceProfile, WorkspaceProfileStatus
from workslice_api.slices import slice_name, slice_resource
from workslice_operator.finding import Finding
from workslice_operator.pool_conditions import rfc3339
from workslice_operator.profile_fit import profile_fit, stated_fit
from workslice_operator.replica_start import usual_start
from workslice_operator.slice_choice import choose_slice
from workslice_operator.slice_inventory import SliceInventory

_MAX_POOLS: Final = 256


def profile_status(
    profile: WorkspaceProfile, pools: Iterable[WorkspacePool], inventory: SliceInventory | None, now: datetime
) -> WorkspaceProfileStatus:
    """The status as of `now`; `pools` may be all pools of the cluster."""
    named = [pool for pool in pools if pool.spec.profile_ref.name == profile.metadata.name]
    users = sorted(pool.key for pool in named)
    # Whoever may not use the profile could tell anything of it.
    ours = [pool for pool in named if profile.spec.allows(pool.metadata.namespace)]
    fit, stated = profile_fit(profile, inventory, ours), stated_fit(profile, inventory, ours)
    findings = {ConditionType.ACCEPTED: _accepted(profile, stated.rows, inventory), ConditionType.FITS: fit.finding}
    generation, stamp = profile.metadata.generation, rfc3339(now)
    fresh = [
        condition(type_, one.status, one.reason, one.message, generation, stamp) for type_, one in findings.items()
    ]
    return WorkspaceProfileStatus(
        model=profile.status.model,
        observed_generation=generation,
        pools=users[:_MAX_POOLS],
        pool_count=len(users),
        slices=list(fit.rows),
        slice=choose_slice(profile, stated.rows, inventory, 1, SliceStatus()).slice
        if stated.finding.status is not False
        else "",
        start_seconds=usual_start(profile.status.start_seconds, (pool.status.last_start for pool in ours)),
        conditions=merge_conditions(profile.status.conditions, fresh),
    )


def _accepted(profile: WorkspaceProfile, rows: Iterable[SliceFit], inventory: SliceInventory | None) -> Finding:
    # A slice without room for the model is of no use, unless none has: then Fits says it.
    useful = [one.profile for one in rows if one.fits is not False]
    names, products = useful or profile.spec.slice.profiles, profile.spec.slice.products
    wanted = " or ".join(names)
    where = f" on {' or '.join(products)}" if products else ""
    if inventory is None:
        return Finding(None, Reason.SLICES_UNKNOWN, "the nodes could not be read; the operator tries again")
    there = [one for one in names if inventory.exists(slice_resource(one), products)]
    if there:
        return Finding(True, Reason.VALID, f"the cluster has {' and '.join(there)} slices{where}")
    kinds = ", ".join(slice_name(one) for one in inventory.resources()) or "none"
    message = (
        f"no node has {wanted} slices{where} (in the cluster: {kinds}): change slice of the profile, repartition a GPU, or add a "
        "node; pools of this profile wait until then"
    )
    return Finding(False, Reason.SLICE_NOT_IN_CLUSTER, message)
