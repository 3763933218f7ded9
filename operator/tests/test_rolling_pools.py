from dataclasses import replace

import pytest
from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pod, make_pool, make_profile, ready_pod

from workslice_api.conditions import find_condition
from workslice_api.names import PAUSED_ANNOTATION
from workslice_operator.keys import Key, pool_key
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan, plan
from workslice_operator.rolling_pools import RollingPools, is_rolling
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.template_record import rendered_record

POOL, PROFILE = make_pool(), make_profile()
READY = rendered_record(POOL, PROFILE)
CHANGED = make_profile(engine={"extraArgs": ["--enforce-eager"]})
FIRST, SECOND, THIRD = (pool_key("shop", name) for name in ("first", "second", "third"))


def deployment(**facts: object) -> DeploymentFacts:
    return make_deployment(template_hash=READY.hash, ready_template=READY.as_text(), **facts)


def serving(**facts: object) -> Observed:
    return make_observed(pool=POOL, profile=CHANGED, deployment=deployment(**facts), pods=(ready_pod("a"),))


def look(rolling: RollingPools, key: Key, observed: Observed, seconds: float = 0.0) -> Plan:
    observed = replace(observed, may_roll=rolling.may_roll(key, observed, seconds))
    planned = plan(observed, INSTALLATION, NOW)
    rolling.follow(key, planned, observed)
    return planned


def waits(planned: Plan) -> bool:
    found = find_condition(planned.status.conditions, "Outdated")
    return found is not None and found.reason == "RolloutWaits"


def test_so_many_pools_roll_at_once_and_the_others_keep_what_serves() -> None:
    rolling = RollingPools(lambda _: None, most=2)
    assert not waits(look(rolling, FIRST, serving()))
    assert not waits(look(rolling, SECOND, serving()))
    third = look(rolling, THIRD, serving())
    assert waits(third)
    assert third.template_hash == READY.hash


def test_a_pool_that_serves_with_a_template_that_is_not_remembered_waits_with_its_deployment_untouched() -> None:
    rolling = RollingPools(lambda _: None, most=1)
    look(rolling, FIRST, serving())
    unknown = replace(serving(), deployment=make_deployment(template_hash=READY.hash))
    second = look(rolling, SECOND, unknown)
    assert waits(second)
    assert "Deployment" not in {one["kind"] for one in second.apply}
    rolling.forget(FIRST)
    assert not waits(look(rolling, SECOND, unknown))


def test_a_pool_that_is_done_gives_its_turn_to_the_one_that_waits_longest() -> None:
    woken: list[Key] = []
    rolling = RollingPools(woken.append, most=1)
    look(rolling, FIRST, serving())
    look(rolling, SECOND, serving())
    look(rolling, THIRD, serving())
    done = replace(serving(), profile=PROFILE)
    look(rolling, FIRST, done)
    assert woken == [SECOND]
    assert not waits(look(rolling, SECOND, serving()))
    assert waits(look(rolling, THIRD, serving()))


def test_a_pool_that_is_deleted_gives_its_turn_back() -> None:
    woken: list[Key] = []
    rolling = RollingPools(woken.append, most=1)
    look(rolling, FIRST, serving())
    look(rolling, SECOND, serving())
    rolling.forget(FIRST)
    assert woken == [SECOND]


def test_a_pool_that_needs_no_turn_any_more_leaves_it_to_those_behind_it() -> None:
    woken: list[Key] = []
    rolling = RollingPools(woken.append, most=1)
    for key in (FIRST, SECOND, THIRD):
        look(rolling, key, serving())
    put_back = replace(serving(), profile=PROFILE)
    look(rolling, SECOND, put_back)
    look(rolling, FIRST, put_back)
    assert woken == [THIRD]


def held(planned: Plan) -> Observed:
    """The pool of that plan, which somebody has paused since."""
    metadata = POOL.metadata.model_copy(update={"annotations": {PAUSED_ANNOTATION: "true"}})
    return replace(serving(), pool=POOL.model_copy(update={"metadata": metadata, "status": planned.status}))


@pytest.mark.parametrize("what", ["deleted", "paused", "not to be changed any more"])
def test_a_pool_that_does_not_take_its_turn_passes_it_on(what: str) -> None:
    woken: list[Key] = []
    rolling = RollingPools(woken.append, most=1)
    for key in (FIRST, SECOND, THIRD):
        planned = look(rolling, key, serving())
    look(rolling, FIRST, replace(serving(), profile=PROFILE))
    assert woken == [SECOND]
    match what:
        case "deleted":
            rolling.forget(SECOND)
        case "paused":
            look(rolling, SECOND, held(planned))
        case _:
            look(rolling, SECOND, replace(serving(), profile=make_profile(allowedNamespaces=["lab"])))
    assert woken == [SECOND, THIRD]


def replaced(**facts: object) -> Observed:
    """The pool of the changed profile, all of whose pods are new; none is ready at this look."""
    running = make_deployment(template_hash=rendered_record(POOL, CHANGED).hash, progress_deadline=600.0, **facts)
    return make_observed(pool=POOL, profile=CHANGED, deployment=running, pods=(make_pod("a", started=True),))


def test_replicas_that_become_ready_and_crash_again_for_ever_hold_up_no_other_pool() -> None:
    woken: list[Key] = []
    rolling = RollingPools(woken.append, most=1)
    look(rolling, FIRST, serving())
    look(rolling, SECOND, serving())
    look(rolling, FIRST, replaced(), seconds=10)
    assert waits(look(rolling, SECOND, serving(), seconds=609))
    look(rolling, FIRST, replaced(), seconds=609)
    assert woken == []
    look(rolling, FIRST, replaced(), seconds=610)
    assert woken == [SECOND]
    look(rolling, FIRST, replaced(), seconds=611)
    assert not waits(look(rolling, SECOND, serving(), seconds=612))


def test_the_time_of_the_last_replica_begins_when_nothing_of_the_version_before_is_left() -> None:
    rolling = RollingPools(lambda _: None, most=1)
    look(rolling, FIRST, serving())
    for seconds in (10, 1000):
        look(rolling, FIRST, replaced(outdated_replicas=1), seconds)
        look(rolling, FIRST, replaced(settled=False), seconds + 5)
    look(rolling, FIRST, replaced(), seconds=1010)
    look(rolling, FIRST, replaced(), seconds=1600)
    assert waits(look(rolling, SECOND, serving(), seconds=1600))


def test_a_new_change_of_a_pool_that_is_being_rolled_gives_it_the_whole_time_again() -> None:
    rolling = RollingPools(lambda _: None, most=1)
    look(rolling, FIRST, serving())
    look(rolling, FIRST, replaced(), seconds=10)
    look(rolling, FIRST, replace(replaced(), profile=make_profile(engine={"extraArgs": ["--a"]})), seconds=500)
    look(rolling, FIRST, replaced(), seconds=700)
    assert waits(look(rolling, SECOND, serving(), seconds=700))


def test_a_pool_that_serves_nothing_need_not_wait() -> None:
    rolling = RollingPools(lambda _: None, most=0)
    broken = make_observed(pool=POOL, profile=CHANGED, deployment=make_deployment(template_hash="of a broken one"))
    assert not waits(look(rolling, FIRST, broken))


def test_a_rollout_shows_at_its_deployment_also_to_a_process_that_did_not_begin_it() -> None:
    assert is_rolling(serving(outdated_replicas=1), begun=False)
    assert not is_rolling(serving(), begun=False)


def test_a_rollout_lasts_until_the_last_new_replica_is_ready_or_it_stalls() -> None:
    starting = replace(serving(), pods=())
    assert is_rolling(starting, begun=True)
    assert not is_rolling(serving(), begun=True)
    assert not is_rolling(serving(outdated_replicas=1, stalled=True), begun=True)
