"""Whatever happens in whatever order: no replica goes with requests before its time, and every drain ends."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from shrinking_world import TIMEOUT, World

NUMBER = st.integers(0, 5)
OFTEN = st.one_of(
    st.tuples(st.just("round")),
    st.tuples(st.just("send"), NUMBER, NUMBER),
    st.tuples(st.just("finish"), NUMBER),
    st.tuples(st.just("desire"), st.integers(0, 2)),
)
SELDOM = st.one_of(
    st.tuples(st.just("operate")),
    st.tuples(st.just("tick"), st.sampled_from([1.0, 20.0, TIMEOUT])),
    st.tuples(st.just("desire"), NUMBER),
    st.tuples(st.just("silence"), NUMBER),
    st.tuples(st.just("sync"), NUMBER),
    st.tuples(st.just("forget"), NUMBER),
    st.tuples(st.just("crash"), NUMBER),
    st.tuples(st.just("hang"), NUMBER),
    st.tuples(st.just("ready")),
    st.tuples(st.just("roll")),
)
STEP = st.one_of(OFTEN, OFTEN, OFTEN, SELDOM)


def step(world: World, action: tuple[Any, ...]) -> None:
    match action:
        case ("operate",):
            surplus = max(world.deployment, len(world.replicas)) - world.desired
            before, rolling = world.deployment, world.rolling
            plan = world.operate()
            assert plan.replicas >= world.desired
            assert len(plan.marks) <= max(0, surplus), "no replica is asked to go beyond what scaling asks"
            if rolling and world.desired:
                assert plan.replicas >= before
            busy = {one.uid for one in world.replicas if one.load}
            world.replica_set()
            early = {one.uid for one in world.removed} & busy - world.expired
            assert early == set(), "a replica went with requests before its time"
        case ("tick", seconds):
            world.seconds += seconds
        case ("send", router, choice):
            world.send(router, choice)
        case ("round",):
            world.seconds += 2
            world.sync_routers()
            step(world, ("operate",))
        case ("finish", number):
            world.finish(number)
        case ("forget", number):
            world.forget(number)
        case ("desire", count):
            world.desired = count
        case ("silence", number):
            router = world.routers[number % len(world.routers)]
            router.reachable = not router.reachable
        case ("sync", number):
            world.sync(world.routers[number % len(world.routers)])
        case ("crash", number) if world.replicas:
            one = world.replicas[number % len(world.replicas)]
            one.ready = one.started = False
            one.requests, one.unrouted = {}, 0
        case ("hang", number) if world.replicas:
            world.replicas[number % len(world.replicas)].ready = False
        case ("ready",):
            for one in world.replicas:
                one.ready = one.started = True
        case ("roll",):
            world.rolling = not world.rolling


FEW = st.sampled_from([0, 0, 1, 2])
worlds = st.builds(
    World,
    loads=st.lists(st.tuples(FEW, FEW), min_size=2, max_size=5),
    routers=st.integers(1, 3),
    desired=st.integers(0, 3),
)


@settings(max_examples=300)
@given(world=worlds, actions=st.lists(STEP, max_size=40))
def test_no_replica_goes_with_requests_before_they_end_or_its_time_is_over(world: World, actions: list[Any]) -> None:
    for action in actions:
        step(world, action)


def test_of_two_replicas_whose_time_is_over_either_may_go() -> None:
    world = World(loads=[(0, 0), (0, 0), (0, 1)], routers=1, desired=1)
    for action in (("round",), ("round",), ("desire", 0), ("tick", TIMEOUT), ("round",)):
        step(world, action)
    assert world.deployment == 2


@settings(max_examples=200)
@given(world=worlds, actions=st.lists(STEP, max_size=30))
def test_from_any_state_a_drain_ends_at_the_wanted_size_with_nothing_left_behind(
    world: World, actions: list[Any]
) -> None:
    for action in actions:
        step(world, action)
    world.rolling = False
    for router in world.routers:
        router.reachable = True
    for _ in range(25):
        step(world, ("ready",))
        for number in range(5):
            world.finish(number)
        step(world, ("round",))
    assert len(world.replicas) == world.deployment == world.desired
    assert world.marks == []
    assert [one.cost for one in world.replicas] == [0] * world.desired


@settings(max_examples=200)
@given(world=worlds, actions=st.lists(STEP, max_size=30))
def test_a_silent_router_holds_a_drain_no_longer_than_the_timeout(world: World, actions: list[Any]) -> None:
    for action in actions:
        step(world, action)
    world.rolling = False
    for _ in range(3):
        step(world, ("ready",))
        step(world, ("operate",))
    for router in world.routers:
        router.reachable = False
    for _ in range(4):
        step(world, ("tick", TIMEOUT))
        step(world, ("operate",))
    assert world.deployment == world.desired


@settings(max_examples=200)
@given(world=worlds, actions=st.lists(STEP, max_size=30))
def test_a_replica_that_is_still_there_can_be_called_back_at_any_time(world: World, actions: list[Any]) -> None:
    for action in actions:
        step(world, action)
    world.desired = max(world.deployment, len(world.replicas))
    plan = world.plan()
    assert plan.marks == ()
    assert plan.replicas == world.desired


@settings(max_examples=200)
@given(world=worlds, actions=st.lists(STEP, max_size=40))
def test_looking_twice_at_the_same_world_changes_nothing_more(world: World, actions: list[Any]) -> None:
    for action in actions:
        step(world, action)
    world.operate()
    world.replica_set()
    first = world.plan()
    world.marks, world.draining = list(first.marks), [mark.uid for mark in first.marks]
    second = world.plan()
    assert (second.marks, second.replicas) == (first.marks, first.replicas)
