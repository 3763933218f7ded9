"""Turns the API's objects into what the router needs of them. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from workslice_api.conditions import find_condition
from workslice_api.engine_spec import EngineSpec
from workslice_api.names import ConditionType
from workslice_api.names import Reason as PoolReason
from workslice_api.pool import RequestClass, ServiceLevelObjective, WorkspacePool
from workslice_api.profile import WorkspaceProfileSpec, WorkspaceSpec
from workslice_api.quantity import duration_seconds
from workslice_router.class_times import ClassTimes
from workslice_router.replica_load import EnginePace, ServiceLevel
from workslice_router.routing_table import PoolSpec, ReplicaSpec

_SANE_UID: Final = re.compile(r"[0-9A-Za-z._-]{1,128}\Z")
_NO_WAITING_HEALS: Final = (PoolReason.MODEL_VOLUME_MISSING, PoolReason.PODS_REFUSED)
"""Why no replica comes until a person has changed something."""
_DEFAULT_CONCURRENT: Final = int(WorkspaceSpec().max_concurrent)
_WHOLE_GPU: Final = 28_000.0
"""Prompt tokens a second of a model of 8 billion parameters on an H100: a first guess, corrected by what first tokens show."""
_GPU_SEVENTHS: Final = 7
_COMPUTE_SHARE: Final = re.compile(r"([1-7])g\.")


def pool_spec(
    pool: WorkspacePool, profile: WorkspaceProfileSpec | None, start_seconds: float | None = None
) -> PoolSpec:
    """What the router needs of a pool whose profile's replicas usually take so long to start. A profile that is missing (deleted under
    running engines) does not stop the pool: the class's bound stands for the context.
    """
    spec = pool.spec
    wanted = spec.request_class.max_total_tokens
    context = profile.workspace.max_tokens if profile is not None else wanted
    created = pool.metadata.creation_timestamp
    concurrent = profile.workspace.max_concurrent if profile is not None else _DEFAULT_CONCURRENT
    set_cap = spec.queue.max_in_flight_per_replica
    return PoolSpec(
        key=pool.key,
        uid=pool.metadata.uid,
        model=spec.model,
        aliases=tuple(spec.aliases),
        class_name=spec.request_class.name,
        class_tokens=min(wanted, context),
        context_tokens=context,
        class_prompt_tokens=spec.request_class.max_prompt_tokens,
        strict=spec.spillover == "Strict",
        priority=spec.request_class.priority,
        weight=spec.weight,
        max_concurrent=concurrent if set_cap is None else min(concurrent, set_cap),
        derives_cap=set_cap is None,
        queue_depth=spec.queue.max_depth,
        queue_wait=duration_seconds(spec.queue.max_wait),
        cold_start_wait=duration_seconds(spec.queue.cold_start_max_wait),
        start_seconds=start_seconds,
        desired_replicas=_expected_replicas(pool),
        asleep=pool.status.scaling.asleep,
        created=created.timestamp() if created is not None else 0.0,
        level=_level(spec.request_class.slo),
        first_pace=_first_pace(profile, pool.status.slices.profile),
        times=_times(spec.request_class),
        degrade_tokens=spec.degrade.max_tokens if spec.degrade is not None else None,
        fallback_model=(spec.degrade.fallback_model or "") if spec.degrade is not None else "",
    )


def _level(slo: ServiceLevelObjective | None) -> ServiceLevel | None:
    """An objective of zero is one that nothing meets; a millisecond stands for it."""
    if slo is None:
        return None
    return ServiceLevel(
        max(0.001, duration_seconds(slo.time_to_first_token)), max(0.001, duration_seconds(slo.time_per_output_token))
    )


def _times(request_class: RequestClass) -> ClassTimes:
    """Nothing below a second: an engine that is given no time at all would fail every request."""
    timeouts = request_class.timeouts
    given = (
        timeouts.first_byte if timeouts is not None else None,
        timeouts.idle if timeouts is not None else None,
        request_class.keep_alive,
    )
    return ClassTimes(*(None if text is None else max(1.0, duration_seconds(text)) for text in given))


def _first_pace(profile: WorkspaceProfileSpec | None, slice_: str) -> EnginePace:
    """What is to be expected of a replica of a profile, on a slice (empty: the profile's first), before one has answered."""
    engine = profile.engine if profile is not None else EngineSpec()
    share = 1.0
    if profile is not None and (part := _COMPUTE_SHARE.match(slice_ or profile.slice.profiles[0])):
        share = int(part[1]) / _GPU_SEVENTHS
    chunk = min(engine.long_prefill_token_threshold or engine.batched_tokens, engine.batched_tokens)
    return EnginePace(_WHOLE_GPU * share, chunk, engine.batched_tokens // chunk)


def _expected_replicas(pool: WorkspacePool) -> int:
    """Replicas that those who wait may hope for. A pool that sleeps has none and is woken by the first who waits."""
    if _in_vain(pool):
        return 0
    engines = find_condition(pool.status.conditions, ConditionType.ENGINES_READY)
    asleep = engines is not None and engines.reason == PoolReason.SCALED_TO_ZERO
    wakes = pool.spec.scaling.mode == "QueueDepth" and pool.spec.scaling.scale_to_zero_after is not None
    return max(pool.status.desired_replicas, 1 if asleep and wakes else 0)


def _in_vain(pool: WorkspacePool) -> bool:
    """Whether the operator says that no further replica comes, of the pool as it now is."""
    engines = find_condition(pool.status.conditions, ConditionType.ENGINES_READY)
    return (
        engines is not None
        and engines.status == "False"
        and engines.reason in _NO_WAITING_HEALS
        and engines.observed_generation >= pool.metadata.generation
    )


def replica_specs(
    slices: Iterable[Mapping[str, Any]], port_name: str, draining: frozenset[str]
) -> tuple[ReplicaSpec, ...]:
    """Replicas in the EndpointSlices of one pool, by pod UID; an endpoint without a pod is skipped. Of an address that several slices
    carry (an endpoint that moves between them) the ready one counts.
    """
    found: dict[str, ReplicaSpec] = {}
    for slice_ in slices:
        port = _port(slice_.get("ports") or (), port_name)
        if port is None:
            continue
        for endpoint in slice_.get("endpoints") or ():
            uid = (endpoint.get("targetRef") or {}).get("uid")
            addresses = endpoint.get("addresses")
            if not addresses or not isinstance(uid, str) or not _SANE_UID.match(uid):  # clients see it in a header
                continue
            conditions = endpoint.get("conditions") or {}
            spec = ReplicaSpec(
                uid=uid,
                host=addresses[0],
                port=port,
                ready=conditions.get("ready") is not False,  # unset means ready, says the API
                draining=bool(conditions.get("terminating")) or uid in draining,
            )
            if uid not in found or (spec.ready and not found[uid].ready):
                found[uid] = spec
    return tuple(found.values())


def _port(ports: Iterable[Mapping[str, Any]], name: str) -> int | None:
    listed = list(ports)
    for port in listed:
        if port.get("name") == name and port.get("port"):
            return int(port["port"])
    return int(listed[0]["port"]) if len(listed) == 1 and listed[0].get("port") else None
