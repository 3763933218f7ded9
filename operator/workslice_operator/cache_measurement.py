"""How large the KV cache is that a running engine has: whom to ask, and where the answer is kept. Pure.

A pool's status keeps what one of its engines said, with a digest of the settings that it holds for; the profile's status shows it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from workslice_api.pool import SliceStatus, WorkspacePool
from workslice_api.profile import SliceFit, WorkspaceProfile
from workslice_operator.memory_settings import cache_told_in_blocks, settings_digest
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.template_record import rendered_record

LARGEST_DEVIATION: Final = 0.2
"""Of a measurement from its estimate, before an Event tells of it."""


def engine_to_measure(observed: Observed) -> PodFacts | None:
    """A ready engine of the present settings, while the pool's status has no measurement of them; the profile must name one slice."""
    profile, running, ready = observed.profile, observed.deployment, [pod for pod in observed.pods if pod.ready]
    if profile is None or running is None or not ready or not running.settled or running.outdated_replicas:
        return None
    if cache_told_in_blocks(profile):
        return None
    slice_ = profile.spec.slice.profiles[0]
    if observed.pool.status.slices.measured_for == settings_digest(profile, slice_):
        return None
    if running.template_hash != rendered_record(observed.pool, profile).hash:
        return None
    return next((pod for pod in ready if pod.address and pod.live), None)


def measured_slices(observed: Observed, slices: SliceStatus) -> SliceStatus:
    """The pool's slices with what an engine said now or before, as long as it holds."""
    before = observed.pool.status.slices
    if observed.profile is None:
        return slices
    digest = settings_digest(observed.profile, slices.profile)
    tokens = observed.kv_tokens or (before.kv_tokens if before.measured_for == digest else None)
    return slices.model_copy(update={"kv_tokens": tokens, "measured_for": digest}) if tokens else slices


def measurements(profile: WorkspaceProfile, pools: Iterable[WorkspacePool]) -> Mapping[str, int]:
    """Tokens that the KV cache holds, by slice: the least that engines of the profile's present settings said, in its pools or as its
    status remembers.
    """
    if cache_told_in_blocks(profile):
        return {}
    digests = {one: settings_digest(profile, one) for one in profile.spec.slice.profiles}
    remembered = {one.profile: one for one in profile.status.slices if one.source == "measured"}
    found: dict[str, int] = {
        name: row.kv_tokens
        for name, row in remembered.items()
        if row.kv_tokens and row.measured_for == digests.get(name)
    }
    fresh: dict[str, int] = {}
    for pool in pools:
        it = pool.status.slices
        mine = pool.spec.profile_ref.name == profile.metadata.name
        if mine and it.kv_tokens and it.measured_for == digests.get(it.profile):
            fresh[it.profile] = min(it.kv_tokens, fresh.get(it.profile, it.kv_tokens))
    return found | fresh


def deviations(before: Iterable[SliceFit], now: Iterable[SliceFit]) -> tuple[str, ...]:
    """A sentence for each measurement that is far from the estimate, and was not before."""
    known = {(one.profile, one.measured_for) for one in before if _deviates(one)}
    return tuple(
        f"{one.profile}: engines have {one.kv_tokens:,} tokens of KV cache, the estimate was {one.estimated_kv_tokens:,}; compare "
        "model.shape with the model's config.json, or take it out if the model is of a kind that is not estimated"
        for one in now
        if _deviates(one) and (one.profile, one.measured_for) not in known
    )


def _deviates(one: SliceFit) -> bool:
    if one.source != "measured" or not one.kv_tokens or one.estimated_kv_tokens is None:
        return False
    return abs(one.estimated_kv_tokens - one.kv_tokens) > LARGEST_DEVIATION * one.kv_tokens
