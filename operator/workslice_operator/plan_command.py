"""`plan`: what the operator would change in a live cluster for given or all pools. Reads, and asks the API with dryRun; writes nothing."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Protocol

from workslice_api.names import API_VERSION, COMPONENT_LABEL, POOL_KIND
from workslice_api.ownership import model_ownership
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.declared import Declared
from workslice_operator.installation import Installation
from workslice_operator.kube_api import (
    CHILD_RESOURCES,
    DEPLOYMENTS,
    POOLS,
    PROFILES,
    Kube,
    NotFound,
    Object,
    Refused,
    Resource,
)
from workslice_operator.live_difference import live_difference
from workslice_operator.load_observed import PredecessorRemains, load_children, load_observed, shared_inventory
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan, plan
from workslice_operator.readable import readable_pools
from workslice_operator.rendered_children import why_nothing
from workslice_operator.settings import running_settings
from workslice_operator.slice_inventory import SliceInventory

_USERS_MANAGER: Final = "kubectl"
"""Field manager of `kubectl apply --server-side`: the dry run then leaves alone what others own, such as a scaled spec.replicas."""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class DryKube(Kube, Protocol):
    """A Kubernetes API that can also be asked what an apply would do."""

    async def dry_apply(self, resource: Resource, manifest: Mapping[str, Any], manager: str = ...) -> Object:
        """The object as `apply` would leave it; nothing is stored."""


class NotPlanned(Exception):
    """The cluster refuses what the files say, or cannot be asked; the message says what and why."""


@dataclass(frozen=True)
class PoolPlan:
    """What would happen to one pool."""

    pool: str
    differences: tuple[str, ...]
    """Unified diffs, one per child that would change."""
    says: str
    """One sentence."""


async def planned_changes(
    kube: DryKube, files: Declared | None, installation: Installation, owners: Mapping[str, str], now: datetime
) -> list[PoolPlan]:
    """The plans of the pools in the files and of those that use their profiles; without files, of all pools.

    Raises:
        NotPlanned: the API refuses an object of the files.
        KubeError: the API is away, or forbids reading.
    """
    try:
        stored = {pool.key: pool for pool in readable_pools(await kube.list(POOLS))}
    except NotFound as error:
        raise NotPlanned(
            f"this cluster does not know {API_VERSION}: install the chart, which brings the CRDs"
        ) from error
    given, profiles = await _as_stored(kube, files)
    pools = stored | given
    ownership = model_ownership(pools.values(), owners)
    inventory = await shared_inventory(kube).get()
    plans = []
    for key, pool in sorted(pools.items()):
        if files is None or key in given or pool.spec.profile_ref.name in profiles:
            observed = await _observed(kube, pool, profiles, inventory)
            if isinstance(observed, str):
                plans.append(PoolPlan(key, (), observed))
                continue
            children, facts = observed
            facts = replace(
                facts, conflict=ownership.conflicts.get(key), unserved_fallback=ownership.unserved_fallback(pool)
            )
            plans.append(await _pool_plan(kube, key, children, facts, plan(facts, installation, now)))
    return plans


async def running_installation(kube: Kube) -> tuple[Installation, Mapping[str, str]] | None:
    """Installation and model owners of the operator that runs in the cluster; None when there is none to be seen.

    Raises:
        ValueError: its arguments cannot be read.
    """
    labels = f"app.kubernetes.io/part-of=workslice,{COMPONENT_LABEL}=operator"
    for raw in await kube.list(DEPLOYMENTS, labels=labels):
        (container,) = raw["spec"]["template"]["spec"]["containers"][:1]
        return running_settings(container.get("args") or [], raw["metadata"]["namespace"])
    return None


async def _as_stored(
    kube: DryKube, files: Declared | None
) -> tuple[dict[str, WorkspacePool], dict[str, WorkspaceProfile]]:
    """The objects of the files as the API server would store them."""
    pools: dict[str, WorkspacePool] = {}
    profiles: dict[str, WorkspaceProfile] = {}
    for raw in files.raw if files else ():
        resource = POOLS if raw["kind"] == POOL_KIND else PROFILES
        metadata = raw["metadata"]
        name = f"{raw['kind']} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"
        try:
            live = await kube.get(resource, metadata.get("namespace", ""), metadata["name"])
            after = await kube.dry_apply(resource, _to_apply(raw), _USERS_MANAGER)
        except (Refused, NotFound) as error:
            raise NotPlanned(f"{name}: the API refuses it: {error.message}") from error
        after = {**after, "spec": _without_removed(after["spec"], raw["spec"], _last_applied(live))}
        if resource is POOLS:
            pool = WorkspacePool.model_validate(after)
            pools[pool.key] = pool
        else:
            profiles[metadata["name"]] = WorkspaceProfile.model_validate(after)
    return pools, profiles


def _to_apply(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object without what an export (`kubectl get -o yaml`) adds and an apply may not carry."""
    kept = {
        key: value for key, value in raw["metadata"].items() if key in ("name", "namespace", "labels", "annotations")
    }
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": kept, "spec": raw["spec"]}


def _last_applied(live: Object | None) -> Any:
    text = ((live or {}).get("metadata", {}).get("annotations") or {}).get(_LAST_APPLIED, "")
    try:
        return json.loads(text).get("spec", {}) if text else {}
    except ValueError:
        return {}


def _without_removed(after: Any, given: Any, applied_last: Any) -> Any:
    """What `kubectl apply` without --server-side would also take away: fields that were applied last and are not given now."""
    if not isinstance(after, Mapping) or not isinstance(applied_last, Mapping) or not isinstance(given, Mapping):
        return after
    removed = applied_last.keys() - given.keys()
    return {
        key: _without_removed(value, given.get(key), applied_last.get(key))
        for key, value in after.items()
        if key not in removed
    }


async def _observed(
    kube: Kube, pool: WorkspacePool, profiles: Mapping[str, WorkspaceProfile], inventory: SliceInventory | None
) -> tuple[dict[str, Object], Observed] | str:
    """The children as they are and the facts, or why there are none."""
    try:
        children = await load_children(kube, pool)
    except PredecessorRemains as remains:
        return f"waits: {remains}"
    facts = await load_observed(kube, pool, children, None, None, inventory)
    profile = profiles.get(pool.spec.profile_ref.name)
    return children, replace(facts, profile=profile, profile_error="") if profile else facts


async def _pool_plan(
    kube: DryKube, key: str, children: Mapping[str, Object], observed: Observed, planned: Plan
) -> PoolPlan:
    if not planned.apply:
        return PoolPlan(key, (), f"nothing is applied: {why_nothing(planned)}")
    differences: list[str] = []
    for manifest in planned.apply:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            after = await kube.dry_apply(CHILD_RESOURCES[kind], manifest)
        except (Refused, NotFound) as error:
            return PoolPlan(key, tuple(differences), f"the API refuses the {kind}: {error.message}")
        difference = live_difference(f"{kind} {observed.pool.metadata.namespace}/{name}", children.get(kind), after)
        if difference:
            differences.append(difference)
    return PoolPlan(key, tuple(differences), "; ".join(_sentence(observed, planned, bool(differences))))


def _sentence(observed: Observed, planned: Plan, changes: bool) -> Iterator[str]:
    wanted = next(one for one in planned.apply if one["kind"] == "Deployment")
    before = observed.deployment
    if before is None:
        yield f"new: {_pods(wanted['spec']['replicas'])} to start"
        return
    if not changes:
        yield "no change"
        return
    if before.replicas != wanted["spec"]["replicas"]:
        yield f"from {before.replicas} to {_pods(wanted['spec']['replicas'])}"
    hashes = wanted["metadata"]["annotations"]
    if before.template_hash not in hashes.values():
        yield f"{_pods(before.replicas)} to replace, one at a time"
    else:
        yield "no engine pod is replaced"


def _pods(count: int) -> str:
    return f"{count} engine pod" if count == 1 else f"{count} engine pods"


def as_text(plans: list[PoolPlan]) -> str:
    """What `plan` prints."""
    parts = [f"# WorkspacePool {one.pool}: {one.says}\n{''.join(one.differences)}" for one in plans]
    return "".join(parts) or "# there are no pools\n"
