import base64
import bz2
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_facts import (
    INSTALLATION,
    NOW,
    make_deployment,
    make_exit,
    make_inventory,
    make_observed,
    make_pod,
    make_pool,
    make_profile,
    ready_pod,
    unplaced_pod,
)

from workslice_api.conditions import find_condition
from workslice_api.names import FAILED_TEMPLATE_ANNOTATION, READY_TEMPLATE_ANNOTATION, RENDERING_ANNOTATION
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.plan import Plan, plan
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.template_record import TemplateRecord, read_record, rendered_record

POOL, PROFILE = make_pool(), make_profile()
NOW_RENDERED = rendered_record(POOL, PROFILE)
EARLIER = replace(NOW_RENDERED, template={**NOW_RENDERED.template, "metadata": {"labels": {"rendered": "by 0.0.9"}}})
"""What an earlier version of the operator made of the same pool and profile."""
CHANGED = make_profile(engine={"extraArgs": ["--no-such-flag"]})
UNKNOWN_FLAG = make_exit("vllm: error: unrecognized arguments: --no-such-flag")


def ran(record: TemplateRecord, ready: TemplateRecord | None = None, **facts: Any) -> DeploymentFacts:
    """The Deployment with the template of one record, and another remembered as ready."""
    return make_deployment(template_hash=record.hash, ready_template=ready.as_text() if ready else "", **facts)


def planned(observed: Observed) -> Plan:
    return plan(observed, INSTALLATION, NOW)


def deployment_of(result: Plan) -> Any:
    return next(one for one in result.apply if one["kind"] == "Deployment")


def template_of(result: Plan) -> Any:
    return deployment_of(result)["spec"]["template"]


def remembered(result: Plan, annotation: str = READY_TEMPLATE_ANNOTATION) -> TemplateRecord | None:
    return read_record(deployment_of(result)["metadata"]["annotations"].get(annotation, ""))


def reason(result: Plan, type_: str) -> str | None:
    found = find_condition(result.status.conditions, type_)
    return found.reason if found else None


def asking(pool: WorkspacePool) -> WorkspacePool:
    metadata = pool.metadata.model_copy(update={"annotations": {RENDERING_ANNOTATION: "latest"}})
    return pool.model_copy(update={"metadata": metadata})


def test_a_template_is_remembered_once_a_replica_is_ready_with_it() -> None:
    starting = planned(make_observed(deployment=ran(NOW_RENDERED), pods=(make_pod(),)))
    assert remembered(starting) is None
    record = remembered(planned(make_observed(deployment=ran(NOW_RENDERED), pods=(ready_pod(),))))
    assert record is not None
    assert record.hash == NOW_RENDERED.hash


def test_a_replica_of_the_version_before_proves_nothing_for_the_new_one() -> None:
    rolling = ran(NOW_RENDERED, EARLIER, outdated_replicas=1)
    record = remembered(planned(make_observed(deployment=rolling, pods=(ready_pod(),))))
    assert record is not None
    assert record.hash == EARLIER.hash


def test_an_upgrade_of_the_operator_alone_keeps_the_template_and_says_that_a_newer_one_waits() -> None:
    result = planned(make_observed(deployment=ran(EARLIER, EARLIER), pods=(ready_pod(),)))
    assert template_of(result) == EARLIER.template
    assert reason(result, "Outdated") == "RenderingWaits"
    assert result.status.conditions[0].status == "True"


PODS = st.lists(
    st.builds(
        make_pod,
        name=st.text("abcdef", min_size=3, max_size=6),
        age=st.sampled_from([1.0, 60.0, 86_400.0]),
        deleting=st.booleans(),
        phase=st.sampled_from(["Pending", "Running", "Failed", "Succeeded"]),
        started=st.booleans(),
        ready=st.booleans(),
        silent=st.booleans(),
        waiting_reason=st.sampled_from(["", "ContainerCreating", "ImagePullBackOff", "CrashLoopBackOff"]),
        restarts=st.integers(0, 5),
        last_exit=st.sampled_from([None, UNKNOWN_FLAG, make_exit("", "OOMKilled", 137), make_exit("Killed")]),
        failure=st.sampled_from(["", "Evicted: the node was low on memory"]),
        node=st.sampled_from(["", "node-1"]),
    ),
    max_size=4,
    unique_by=lambda pod: pod.name,
)
MOVES = st.fixed_dictionaries(
    {"settled": st.booleans(), "outdated_replicas": st.integers(0, 2), "stalled": st.booleans()}
)


@given(pods=PODS, moves=MOVES, replicas=st.integers(0, 4), nodes=st.booleans())
def test_an_upgrade_of_the_operator_keeps_the_template_whatever_the_pods_do(
    pods: list[PodFacts], moves: dict[str, Any], replicas: int, nodes: bool
) -> None:
    inventory = make_inventory(small=(4, 1)) if nodes else None
    running = ran(EARLIER, EARLIER, replicas=2, **moves)
    observed = make_observed(make_pool(replicas=replicas), deployment=running, pods=tuple(pods), inventory=inventory)
    result = planned(observed)
    assert template_of(result) == EARLIER.template
    assert remembered(result) == EARLIER
    assert reason(result, "Outdated") == "RenderingWaits"


def test_a_change_of_size_after_an_upgrade_restarts_nothing_either() -> None:
    result = planned(make_observed(make_pool(replicas=3), deployment=ran(EARLIER, EARLIER), pods=(ready_pod(),)))
    assert template_of(result) == EARLIER.template
    assert deployment_of(result)["spec"]["replicas"] == 3


def test_the_next_change_that_replaces_pods_brings_the_newer_rendering() -> None:
    result = planned(make_observed(POOL, CHANGED, deployment=ran(EARLIER, EARLIER), pods=(ready_pod(),)))
    assert template_of(result) == rendered_record(POOL, CHANGED).template
    assert reason(result, "Outdated") is None


def test_the_newer_rendering_comes_at_once_when_somebody_asks_for_it() -> None:
    result = planned(make_observed(asking(POOL), deployment=ran(EARLIER, EARLIER), pods=(ready_pod(),)))
    assert template_of(result) == NOW_RENDERED.template


def failed_alone(restarts: int = 0, **facts: Any) -> Observed:
    """The only replica runs a changed profile and does not come up."""
    changed = rendered_record(POOL, CHANGED)
    pod = make_pod(last_exit=facts.pop("last_exit", UNKNOWN_FLAG), restarts=restarts)
    return make_observed(POOL, CHANGED, deployment=ran(changed, NOW_RENDERED, **facts), pods=(pod,))


def test_a_single_replica_that_does_not_come_up_goes_back_to_the_last_template_that_was_ready() -> None:
    result = planned(failed_alone())
    assert template_of(result) == NOW_RENDERED.template
    assert reason(result, "Degraded") == "TakenBack"
    found = find_condition(result.status.conditions, "Degraded")
    assert found is not None
    assert "--no-such-flag" in found.message
    assert "kubectl annotate deployment/short-engine -n shop workslice.dev/failed-template-" in found.message
    assert [note.reason for note in result.events if note.type == "Warning"].count("TakenBack") == 1


def test_it_stays_there_and_still_says_why_until_something_changes() -> None:
    failed = remembered(planned(failed_alone()), FAILED_TEMPLATE_ANNOTATION)
    assert failed is not None
    back = ran(NOW_RENDERED, NOW_RENDERED, failed_template=failed.as_text())
    result = planned(make_observed(POOL, CHANGED, deployment=back, pods=(ready_pod(),)))
    assert template_of(result) == NOW_RENDERED.template
    found = find_condition(result.status.conditions, "Degraded")
    assert found is not None
    assert "--no-such-flag" in found.message
    corrected = make_profile(engine={"extraArgs": ["--enforce-eager"]})
    result = planned(make_observed(POOL, corrected, deployment=back, pods=(ready_pod(),)))
    assert template_of(result) == rendered_record(POOL, corrected).template
    assert remembered(result, FAILED_TEMPLATE_ANNOTATION) is None


def test_without_the_memory_of_the_failure_the_same_is_tried_again() -> None:
    back = ran(NOW_RENDERED, NOW_RENDERED)
    result = planned(make_observed(POOL, CHANGED, deployment=back, pods=(ready_pod(),)))
    assert template_of(result) == rendered_record(POOL, CHANGED).template


def test_putting_the_old_value_back_ends_the_matter() -> None:
    failed = remembered(planned(failed_alone()), FAILED_TEMPLATE_ANNOTATION)
    assert failed is not None
    back = ran(NOW_RENDERED, NOW_RENDERED, failed_template=failed.as_text())
    result = planned(make_observed(deployment=back, pods=(ready_pod(),)))
    assert reason(result, "Degraded") == "AsExpected"
    assert remembered(result, FAILED_TEMPLATE_ANNOTATION) is None


def without_place() -> Observed:
    observed = failed_alone(last_exit=None, stalled=True)
    return replace(observed, pods=(unplaced_pod("short-engine-a", "0/1 nodes are available"),))


def without_image(profile: WorkspaceProfile) -> Observed:
    pod = make_pod(waiting_reason="ImagePullBackOff", phase="Pending")
    return make_observed(POOL, profile, deployment=ran(rendered_record(POOL, profile), NOW_RENDERED), pods=(pod,))


@pytest.mark.parametrize(
    ("observed", "why"),
    [
        (failed_alone(outdated_replicas=1), "a replica of the version before is left"),
        (failed_alone(settled=False), "the Deployment controller has not seen it yet"),
        (failed_alone(last_exit=make_exit("Killed")), "an unknown fault has two restarts"),
        (failed_alone(last_exit=None), "it still starts"),
        (without_place(), "both versions wait for the same slices"),
        (without_image(CHANGED), "both versions have the same image"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_is_taken_back_while(observed: Observed, why: str) -> None:
    assert template_of(planned(observed)) != NOW_RENDERED.template


@pytest.mark.parametrize(
    "observed",
    [
        failed_alone(last_exit=make_exit("Killed"), restarts=2),
        failed_alone(last_exit=None, stalled=True),
        without_image(make_profile(engine={"image": "registry.example.com/typo:1"})),
    ],
    ids=[
        "an unknown fault again and again",
        "no progress within the Deployment's deadline",
        "an image that is not there",
    ],
)
def test_it_is_taken_back_after(observed: Observed) -> None:
    assert template_of(planned(observed)) == NOW_RENDERED.template


def test_a_first_version_that_fails_has_nothing_to_go_back_to() -> None:
    observed = make_observed(deployment=ran(NOW_RENDERED), pods=(make_pod(last_exit=UNKNOWN_FLAG),))
    assert template_of(planned(observed)) == NOW_RENDERED.template
    assert reason(planned(observed), "Degraded") == "AsExpected"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "e30=",
        "QlpoOTFBWSZTWQ==",
        "QlpoOTFB",
        '{"template": {}}',
        '{"template": {}, "pool": 1, "profile": 2}',
    ],
)
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    assert read_record(text) is None


def test_a_record_survives_its_annotation() -> None:
    again = read_record(replace(NOW_RENDERED, why="it broke").as_text())
    assert again is not None
    assert (again.hash, again.pool, again.profile, again.why) == (
        NOW_RENDERED.hash,
        POOL.spec,
        PROFILE.spec,
        "it broke",
    )


def warming_up(*texts: str) -> WorkspaceProfile:
    return make_profile(engine={"warmup": {"prefixes": [{"text": text} for text in texts]}})


def letters(first: str, how_many: int, seed: int = 1) -> str:
    """A text of the longest warm-up prefix: random letters of an alphabet."""
    chance = random.Random(seed)
    return "".join(chr(ord(first) + chance.randrange(how_many)) for _ in range(8192))


CYRILLIC = warming_up(*(letters("\u0430", 32, seed) for seed in range(4)))
CHINESE = warming_up(letters("\u4e00", 3000))
TOO_LONG = make_profile(
    engine={"env": [{"name": f"V{seed}", "value": letters("\u4e00", 20_000, seed)[:4096]} for seed in range(16)]}
)


@pytest.mark.parametrize("profile", [CYRILLIC, CHINESE], ids=["cyrillic", "chinese"])
def test_the_record_of_long_warm_up_prefixes_survives_its_annotation(profile: WorkspaceProfile) -> None:
    record = rendered_record(POOL, profile)
    text = record.as_text()
    assert 0 < len(text.encode()) <= 100_000
    assert read_record(text) == record


@pytest.mark.parametrize("profile", [CYRILLIC, CHINESE], ids=["cyrillic", "chinese"])
def test_an_upgrade_of_the_operator_keeps_the_template_of_long_warm_up_prefixes(profile: WorkspaceProfile) -> None:
    fresh = rendered_record(POOL, profile)
    earlier = replace(fresh, template={**fresh.template, "metadata": {"labels": {"rendered": "by 0.0.9"}}})
    result = planned(make_observed(POOL, profile, deployment=ran(earlier, earlier), pods=(ready_pod(),)))
    assert template_of(result) == earlier.template
    assert reason(result, "Outdated") == "RenderingWaits"


def test_a_short_record_stays_the_json_that_it_was() -> None:
    written = json.dumps(json.loads(NOW_RENDERED.as_text()), sort_keys=True)
    result = planned(make_observed(deployment=make_deployment(ready_template=written), pods=(ready_pod(),)))
    assert deployment_of(result)["metadata"]["annotations"][READY_TEMPLATE_ANNOTATION] == written


def test_a_compressed_record_that_would_fill_the_memory_is_none() -> None:
    record = json.loads(NOW_RENDERED.as_text()) | {"why": "x" * 8_000_000}
    assert read_record(base64.b64encode(bz2.compress(json.dumps(record).encode())).decode()) is None


def test_a_template_too_long_to_be_remembered_is_said_before_an_upgrade_restarts_its_engines() -> None:
    assert rendered_record(POOL, TOO_LONG).as_text() == ""
    running = ran(rendered_record(POOL, TOO_LONG))
    result = planned(make_observed(POOL, TOO_LONG, deployment=running, pods=(ready_pod(),)))
    assert remembered(result) is None
    found = find_condition(result.status.conditions, "Degraded")
    assert found is not None
    assert (found.status, found.reason) == ("True", "TemplateTooLong")
    assert "engine.warmup.prefixes" in found.message
    assert [note.reason for note in result.events if note.type == "Warning"].count("TemplateTooLong") == 1


def test_a_change_too_long_to_be_remembered_is_said_while_the_version_before_still_is() -> None:
    running = ran(NOW_RENDERED, NOW_RENDERED)
    result = planned(make_observed(POOL, TOO_LONG, deployment=running, pods=(ready_pod(),)))
    assert reason(result, "Degraded") == "TemplateTooLong"


def failing(profile: WorkspaceProfile) -> Observed:
    running = ran(rendered_record(POOL, profile), NOW_RENDERED)
    return make_observed(POOL, profile, deployment=running, pods=(make_pod(last_exit=UNKNOWN_FLAG),))


def test_a_long_version_that_fails_is_taken_back_and_not_tried_for_ever() -> None:
    profile = warming_up(*(letters("\u4e00", 3000, seed) for seed in range(4)))
    assert rendered_record(POOL, profile).as_text() == ""
    first = planned(failing(profile))
    assert template_of(first) == NOW_RENDERED.template
    text = deployment_of(first)["metadata"]["annotations"][FAILED_TEMPLATE_ANNOTATION]
    back = ran(NOW_RENDERED, NOW_RENDERED, failed_template=text)
    result = planned(make_observed(POOL, profile, deployment=back, pods=(ready_pod(),)))
    assert template_of(result) == NOW_RENDERED.template
    assert reason(result, "Degraded") == "TakenBack"
    assert deployment_of(result)["metadata"]["annotations"][FAILED_TEMPLATE_ANNOTATION] == text


def test_a_failed_version_that_cannot_be_remembered_at_all_is_not_taken_back() -> None:
    result = planned(failing(TOO_LONG))
    assert template_of(result) == rendered_record(POOL, TOO_LONG).template
    assert reason(result, "Degraded") == "TemplateTooLong"
