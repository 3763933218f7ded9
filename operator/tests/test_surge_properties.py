"""Whatever happens in whatever order: every rollout ends, and where a slice stays free no replica is missing for a moment."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rolling_world import BROKEN, Rolling, World

pytestmark = pytest.mark.slow

CHANGE = ("--enforce-eager",)
STEP = st.tuples(
    st.sampled_from(["operate", "deployment", "sets", "scheduler", "kubelet", "finish", "tick"]), st.integers(0, 2)
)
NUISANCE = st.tuples(st.sampled_from(["take", "give", "quota", "change"]), st.integers(0, 6))
SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=3)


def start(sizes: list[int], spare: int) -> World:
    """Pools at rest, and so many free slices beside."""
    pools = [Rolling(f"pool-{number}", size) for number, size in enumerate(sizes)]
    world = World(sum(sizes) + spare, *pools)
    world.settle(4)
    assert all(map(world.rolled, pools))
    return world


def step(world: World, action: tuple[str, int]) -> None:
    name, number = action
    one = world.pools[number % len(world.pools)]
    acts: dict[str, Any] = {
        "operate": world.operate,
        "deployment": world.deployment_controller,
        "sets": world.replica_sets,
        "kubelet": world.kubelet,
        "finish": world.finish,
    }
    match name:
        case "scheduler":
            world.scheduler()
        case "tick":
            world.tick()
        case "take":
            world.foreign += min(max(0, world.free), number)
        case "give":
            world.foreign = max(0, world.foreign - number)
        case "quota":
            one.quota = one.replicas + number % 2 if number < 4 else 1000
        case "change":
            one.extra_args = (f"--seed={number}",)
        case _:
            acts[name](one)


def at_rest(world: World) -> bool:
    """Whether nobody has anything to do any more."""
    before = world.writes, [pod.name for one in world.pools for pod in one.pods]
    world.settle(4)
    return before == (world.writes, [pod.name for one in world.pools for pod in one.pods])


@settings(max_examples=20)
@given(
    SIZES,
    st.integers(0, 3),
    st.lists(st.one_of(STEP, STEP, STEP, NUISANCE), max_size=30),
    st.booleans(),
    st.booleans(),
)
def test_every_rollout_ends_at_rest_and_never_misses_more_than_one_replica(
    sizes: list[int], spare: int, story: list[tuple[str, int]], slices_are_stolen: bool, quota_is_full: bool
) -> None:
    world = start(sizes, spare)
    for one in world.pools:
        one.extra_args = CHANGE
        world.operate(one)
        one.quota = one.replicas if quota_is_full else 1000
    world.foreign = world.foreign_wants = spare if slices_are_stolen else 0
    for action in story:
        step(world, action)
        assert all(one.ready >= one.replicas - 1 for one in world.pools)
        assert all(len(one.live) <= one.replicas + 1 for one in world.pools)
    world.foreign = min(world.foreign, spare)
    for one in world.pools:
        one.quota = max(one.quota, one.replicas)
    world.settle()
    assert all(map(world.rolled, world.pools))
    assert at_rest(world)


@settings(max_examples=20)
@given(SIZES, st.lists(STEP, max_size=30))
def test_where_slices_are_free_whenever_a_rollout_begins_no_pool_ever_has_fewer_ready_replicas(
    sizes: list[int], story: list[tuple[str, int]]
) -> None:
    # One that finishes its requests holds its slice while its successor's successor takes another.
    world = start(sizes, spare=1 if len(sizes) == 1 else sum(sizes))
    for one in world.pools:
        one.extra_args = CHANGE
    for action in [*story, *STEADY]:
        step(world, action)
        assert all(one.ready >= one.replicas for one in world.pools)
    world.settle()
    assert all(map(world.rolled, world.pools))


@settings(max_examples=20)
@given(SIZES, st.integers(0, 3), st.lists(STEP, max_size=30))
def test_a_version_that_never_comes_up_takes_no_more_than_it_would_without_a_surge(
    sizes: list[int], spare: int, story: list[tuple[str, int]]
) -> None:
    world = start(sizes, spare)
    for one in world.pools:
        one.extra_args = BROKEN
    for action in story:
        step(world, action)
        assert all(one.ready >= one.replicas - 1 for one in world.pools)
    world.settle()
    for one in world.pools:
        assert one.ready == (one.replicas if one.replicas == 1 or one.strategy == (1, 0) else one.replicas - 1)
        assert one.replicas > 1 or len(one.pods) == 1, "what did not come up is gone"
    for one in world.pools:
        one.extra_args = CHANGE
    world.settle()
    assert all(map(world.rolled, world.pools))


STEADY = [
    (name, number)
    for _ in range(5)
    for name in ("operate", "deployment", "sets", "scheduler", "kubelet", "operate", "tick")
    for number in range(3)
]
"""Everybody in turn, some times."""
