from dataclasses import replace

from pool_facts import INSTALLATION, NOW, make_deployment, make_observed, make_pool, make_profile, ready_pod

from workslice_api.conditions import find_condition
from workslice_operator.keys import Key, pool_key
from workslice_operator.observed import DeploymentFacts, Observed
from workslice_operator.plan import Plan, plan
from workslice_operator.rolling_pools import RollingPools, is_rolling
from workslice_operator.template_record import rendered_record

POOL, PROFILE = make_pool(), make_profile()
READY = rendered_record(POOL, PROFILE)
CHANGED = make_profile(engine={"extraArgs": ["--enforce-eager"]})
FIRST, SECOND, THIRD = (pool_key("shop", name) for name in ("first", "second", "third"))


def deployment(**facts: object) -> DeploymentFacts:
    return make_deployment(template_hash=READY.hash, ready_template=READY.as_text(), **facts)


def serving(**facts: object) -> Observed:
    return make_observed(pool=POOL, profile=CHANGED, deployment=deployment(**facts), pods=(ready_pod("a"),))


def look(rolling: RollingPools, key: Key, observed: Observed) -> Plan:
    observed = replace(observed, may_roll=rolling.may_roll(key, observed))
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
