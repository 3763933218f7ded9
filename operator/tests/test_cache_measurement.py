from typing import Any

import pytest
from pool_facts import LLAMA_SHAPE, make_deployment, make_observed, make_pod, make_pool, make_profile, ready_pod

from workslice_api.names import Reason
from workslice_api.pool import SliceStatus, WorkspacePool
from workslice_api.profile import SliceFit, WorkspaceProfile, WorkspaceProfileStatus
from workslice_operator.cache_measurement import deviations, engine_to_measure, measured_slices, measurements
from workslice_operator.memory_settings import settings_digest
from workslice_operator.observed import Observed
from workslice_operator.profile_fit import profile_fit
from workslice_operator.template_record import rendered_record

SMALL = "1g.10gb"
DIGEST = settings_digest(make_profile(), SMALL)


def measured_pool(tokens: int = 17_000, digest: str = DIGEST, **spec: Any) -> WorkspacePool:
    return make_pool(status={"slices": {"profile": SMALL, "kvTokens": tokens, "measuredFor": digest}}, **spec)


def running(pool: WorkspacePool | None = None, **facts: Any) -> Observed:
    base: dict[str, Any] = {
        "deployment": make_deployment(),
        "pods": (make_pod("a"), ready_pod("b", address="10.0.0.2")),
    }
    return make_observed(pool, **base | facts)


def remembering(row: SliceFit, **spec: Any) -> WorkspaceProfile:
    return make_profile(**spec).model_copy(update={"status": WorkspaceProfileStatus(slices=[row])})


def test_a_ready_engine_is_asked_until_its_pool_knows() -> None:
    pod = engine_to_measure(running())
    assert pod is not None
    assert pod.name == "b"
    assert engine_to_measure(running(measured_pool())) is None
    assert engine_to_measure(running(measured_pool(digest="of other settings"))) is not None


@pytest.mark.parametrize(
    "facts",
    [
        {"pods": (make_pod("a", address="10.0.0.1"),)},
        {"pods": ()},
        {"pods": (ready_pod("a", address="10.0.0.1", deleting=True),)},
        {"deployment": None},
        {"deployment": make_deployment(outdated_replicas=1)},
        {"deployment": make_deployment(settled=False)},
        {"deployment": make_deployment(template_hash="older")},
        {"profile": None},
    ],
    ids=[
        "none ready",
        "none there",
        "going",
        "no deployment",
        "rolling",
        "not settled",
        "older template",
        "no profile",
    ],
)
def test_no_engine_is_asked_that_may_run_with_other_settings(facts: dict[str, Any]) -> None:
    assert engine_to_measure(running(**facts)) is None


def test_an_engine_that_tells_blocks_of_some_layers_only_is_not_asked() -> None:
    shape = LLAMA_SHAPE | {"slidingWindow": 512, "slidingLayers": 16}
    model = {"source": "/models/tiny", "shape": shape}
    for version, asked in (("0.25.1", False), ("0.26.0", True)):
        profile = make_profile(model=model, engine={"version": version})
        deployment = make_deployment(template_hash=rendered_record(make_pool(), profile).hash)
        assert (engine_to_measure(running(profile=profile, deployment=deployment)) is not None) is asked
        told = measured_pool(digest=settings_digest(profile, SMALL))
        assert bool(measurements(profile, [told])) is asked, "nor is what was told before the shape was stated believed"


def test_a_pool_keeps_what_was_measured_while_the_settings_stay() -> None:
    slices = SliceStatus(profile=SMALL)
    assert measured_slices(running(kv_tokens=17_000), slices).kv_tokens == 17_000
    kept = measured_slices(running(measured_pool()), slices)
    assert (kept.kv_tokens, kept.measured_for) == (17_000, DIGEST)
    other = make_profile(workspace={"maxTokens": 4096})
    assert measured_slices(running(measured_pool(), profile=other), slices) == slices


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"source": "/models/other"}},
        {"model": {"source": "/models/tiny", "dtype": "float16"}},
        {"memory": {"gpuUtilization": 0.5}},
        {"workspace": {"maxConcurrent": 3}},
        {"engine": {"kvCacheDtype": "fp8"}},
        {"engine": {"extraArgs": ["--enforce-eager"]}},
        {"slice": {"profiles": [SMALL], "products": ["A"]}},
    ],
)
def test_a_measurement_holds_for_the_settings_that_it_was_made_under(change: dict[str, Any]) -> None:
    assert settings_digest(make_profile(**change), SMALL) != DIGEST


@pytest.mark.parametrize(
    "change",
    [{"cpu": {"request": "3"}}, {"memory": {"host": "9Gi"}}, {"slice": {"profiles": [SMALL, "2g.20gb"]}}],
)
def test_what_cannot_change_the_cache_leaves_a_measurement_valid(change: dict[str, Any]) -> None:
    assert settings_digest(make_profile(**change), SMALL) == DIGEST


def test_the_least_that_pools_of_the_profile_say_counts_and_then_what_is_remembered() -> None:
    pools = [
        measured_pool(17_000),
        measured_pool(16_000),
        measured_pool(9, profileRef={"name": "other"}),
        measured_pool(9, digest="of other settings"),
    ]
    row = SliceFit(profile=SMALL, source="measured", kv_tokens=5, measured_for=DIGEST)
    assert measurements(remembering(row), pools) == {SMALL: 16_000}
    assert measurements(remembering(row), []) == {SMALL: 5}
    assert measurements(remembering(row.model_copy(update={"measured_for": "older"})), []) == {}
    assert measurements(remembering(row.model_copy(update={"source": "estimated"})), []) == {}


def test_a_measurement_replaces_the_estimate_and_an_unknown_shape() -> None:
    fit = profile_fit(make_profile(), None, [measured_pool(17_000)])
    assert (fit.finding.status, fit.finding.reason) == (True, Reason.MEASURED)
    (row,) = fit.rows
    assert (row.source, row.fits, row.kv_tokens, row.max_concurrent) == ("measured", True, 17_000, 2)
    assert row.message == "running engines have 17,000 tokens of KV cache, 2.1 requests of 8,192 tokens at once"
    assert profile_fit(remembering(row), None).rows == (row,), "and the status remembers it"


@pytest.mark.parametrize(
    ("estimate", "told"), [(17_000, False), (13_601, False), (13_599, True), (20_401, True), (None, False)]
)
def test_a_deviation_of_more_than_a_fifth_is_told_once(estimate: int | None, told: bool) -> None:
    row = SliceFit(
        profile=SMALL, source="measured", kv_tokens=17_000, estimated_kv_tokens=estimate, measured_for=DIGEST
    )
    before = SliceFit(profile=SMALL, kv_tokens=estimate)
    assert bool(deviations([before], [row])) is told
    assert deviations([row], [row]) == ()
    right = row.model_copy(update={"estimated_kv_tokens": 17_000})
    assert bool(deviations([right], [row])) is told, "a shape that is changed for the worse"
