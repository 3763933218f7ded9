"""How many requests a router may have on a replica that others use too, or that is new."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.replica_limits import (
    FIRST_REQUESTS,
    NO_LOAD,
    WARM_SECONDS,
    LoadShare,
    seen_load,
    shared_limit,
    unseen_limit,
    warm_limit,
)

COUNTS = st.integers(0, 2000)
MOST = st.integers(1, 1000)
PART = st.floats(0, 1)


@given(MOST, COUNTS, COUNTS, PART)
def test_a_limit_is_at_least_one_and_at_most_all(most: int, own: int, others: int, part: float) -> None:
    assert 1 <= shared_limit(most, own, others, part) <= most


@given(MOST, PART)
def test_where_nobody_knows_what_others_have_a_router_has_its_part(most: int, part: float) -> None:
    assert 1 <= unseen_limit(most, part) <= most
    assert unseen_limit(most, NO_LOAD.part) == most
    assert abs(unseen_limit(most, part) - most * part) <= 1


@given(MOST, st.integers(0, 1000))
def test_a_router_alone_may_use_every_place(most: int, own: int) -> None:
    assert shared_limit(most, min(own, most), 0, NO_LOAD.part) == most


@given(MOST, COUNTS, COUNTS, PART, st.integers(1, 100))
def test_more_of_others_never_raises_a_limit(most: int, own: int, others: int, part: float, more: int) -> None:
    assert shared_limit(most, own, others + more, part) <= shared_limit(most, own, others, part)


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=50), st.integers(1, 20))
def test_a_part_is_from_none_to_all_and_all_while_nobody_else_shows(
    looks: list[tuple[int, int]], replicas: int
) -> None:
    known = alone = NO_LOAD
    for own, others in looks:
        known, alone = seen_load(known, own, others, replicas), seen_load(alone, own, 0, replicas)
        assert 0 <= known.part <= 1
    assert alone.part == 1


def test_an_idle_replica_says_nothing_of_shares() -> None:
    known = LoadShare(3.0, 1.0, 10)
    assert seen_load(known, 0, 0, 4) is known


@dataclass
class Sender:
    """A router that sends all that its limit allows."""

    most: int
    wants: int
    look_at: float
    ends: list[float] = field(default_factory=list)
    share: LoadShare = NO_LOAD
    limit: int = 0

    def __post_init__(self) -> None:
        self.limit = self.most


def run(most: int, wants: list[int], seed: int, seconds: float = 90.0) -> list[list[int]]:
    """What each of some routers had on one engine, at every tenth of a second of the last half."""
    random, seen, now = Random(seed), [], 0.0
    routers = [Sender(most, wanted, random.random() * 1.5) for wanted in wants]
    while now < seconds:
        for one in routers:
            one.ends = [end for end in one.ends if end > now]
            if now >= one.look_at:
                one.look_at = now + random.uniform(1, 2)
                own = len(one.ends)
                others = sum(len(each.ends) for each in routers) - own
                one.share = seen_load(one.share, own, others, 1)
                one.limit = shared_limit(most, own, others, one.share.part)
            while len(one.ends) < min(one.limit, one.wants):
                one.ends.append(now + random.expovariate(0.5))
        seen.append([len(one.ends) for one in routers])
        now += 0.1
    return seen[len(seen) // 2 :]


@pytest.mark.parametrize(("most", "count"), [(2, 2), (8, 2), (64, 2), (256, 2), (64, 3), (16, 5)])
def test_routers_that_all_have_more_to_send_share_alike_and_stay_near_the_most(most: int, count: int) -> None:
    seen = run(most, [10**6] * count, seed=1)
    means = [sum(counts) / len(seen) for counts in zip(*seen, strict=True)]
    assert max(sum(counts) for counts in seen) <= most * (1 + count / 16) + 1
    assert sum(means) > 0.9 * most
    assert min(means) > 0.5 * sum(means) / count


def test_what_one_router_leaves_another_may_use() -> None:
    seen = run(64, [10**6, 5], seed=2)
    means = [sum(counts) / len(seen) for counts in zip(*seen, strict=True)]
    assert means[0] > 55
    assert means[1] > 4.5


@given(st.floats(0, 60), COUNTS, MOST)
def test_a_new_replica_gets_more_with_every_answer_and_every_second(seconds: float, finished: int, most: int) -> None:
    limit = warm_limit(seconds, finished, most)
    assert min(FIRST_REQUESTS, most) <= limit <= most
    assert limit <= warm_limit(seconds + 1, finished, most)
    assert limit <= warm_limit(seconds, finished + 1, most)
    assert warm_limit(WARM_SECONDS + seconds, 0, most) == most
