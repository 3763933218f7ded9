"""`render`: pools and profiles from files to what would be applied, as text. Pure: no cluster, no clock."""

from collections.abc import Iterator, Mapping
from datetime import datetime

from workslice_api.base import Condition
from workslice_api.ownership import model_ownership
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.declared import Declared, Undeclarable
from workslice_operator.fit_table import fit_table
from workslice_operator.installation import Installation
from workslice_operator.observed import Observed
from workslice_operator.profile_status import profile_status
from workslice_operator.rendered_children import NothingApplied, rendered_children
from workslice_operator.slice_inventory import SliceInventory

GIVEN_BY_CLUSTER = "given-by-the-cluster"
"""Stands for the UID of a pool that no cluster has yet."""


def rendered(
    files: Declared,
    installation: Installation,
    owners: Mapping[str, str],
    inventory: SliceInventory | None,
    now: datetime,
) -> str:
    """YAML documents, each pool's after a comment; `owners` maps model names to the namespace that alone may serve them.

    Raises:
        Undeclarable: a pool's profile is missing, or the operator would make nothing of a pool.
    """
    faults: list[str] = []
    parts = [_about_profile(one, files, inventory, now) for one in files.profiles.values()]
    conflicts = model_ownership(files.pools, owners).conflicts
    for pool in files.pools:
        name = pool.spec.profile_ref.name
        profile = files.profiles.get(name)
        if profile is None:
            faults.append(f"WorkspacePool {pool.key}: its profile {name} is in none of the files: add it with -f")
            continue
        observed = Observed(
            pool=_with_uid(pool), profile=profile, inventory=inventory, conflict=conflicts.get(pool.key)
        )
        try:
            children = rendered_children(observed, installation, now)
        except NothingApplied as nothing:
            faults.append(f"WorkspacePool {pool.key}: {nothing}")
            continue
        parts.append(f"# WorkspacePool {pool.key}\n---\n{children}")
    if faults:
        raise Undeclarable("\n".join(faults))
    return "".join(parts)


def _with_uid(pool: WorkspacePool) -> WorkspacePool:
    metadata = pool.metadata.model_copy(update={"uid": pool.metadata.uid or GIVEN_BY_CLUSTER})
    return pool.model_copy(update={"metadata": metadata})


def _about_profile(profile: WorkspaceProfile, files: Declared, inventory: SliceInventory | None, now: datetime) -> str:
    status = profile_status(profile, files.pools, inventory, now)
    told = [*_conditions(status.conditions, inventory is not None), *fit_table(status.slices)]
    return "".join(
        f"{line}\n" for line in (f"# WorkspaceProfile {profile.metadata.name}", *(f"#   {one}" for one in told))
    )


def _conditions(conditions: list[Condition], nodes_are_known: bool) -> Iterator[str]:
    for one in conditions:
        if nodes_are_known or one.type != "Accepted":  # which needs nodes
            yield f"{one.type}={one.status} ({one.reason}): {one.message}"
