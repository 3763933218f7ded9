"""Which replicas may still know the beginning of a prompt."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from workslice_router.prefix_places import MOST_BEGINNINGS, MOST_PLACES, PrefixPlaces
from workslice_router.prompt_prefix import LENGTHS
from workslice_router.routing_table import Replica, ReplicaSpec


def replica(uid: str, remembers: int = 100) -> Replica:
    return Replica(ReplicaSpec(uid, "10.0.0.1", 8000), remembers=remembers)


def chain(*numbers: int) -> tuple[int, ...]:
    """Hashes of a beginning: equal as far as the numbers are."""
    return tuple(hash(numbers[: end + 1]) for end in range(len(numbers)))


def test_a_replica_knows_what_it_was_sent_as_far_as_it_is_the_same() -> None:
    places, one, other = PrefixPlaces(), replica("a"), replica("b")
    places.sent(chain(1, 2, 3), one)
    places.sent(chain(1, 2), other)
    assert places.known(chain(1, 2, 3, 4), 0.5) == {one: LENGTHS[2] / 2, other: LENGTHS[1] / 2}
    assert places.known(chain(1, 9), 1.0) == {one: LENGTHS[0], other: LENGTHS[0]}
    assert places.known(chain(7), 1.0) == {}
    assert places.known((), 1.0) == {}


def test_a_replica_forgets_what_its_cache_no_longer_holds() -> None:
    places, one = PrefixPlaces(), replica("a", remembers=10)
    places.sent(chain(1), one)
    one.dispatched += 10
    assert places.known(chain(1), 1.0)
    one.dispatched += 1
    assert not places.known(chain(1), 1.0)
    places.sent(chain(1), one)
    assert places.known(chain(1), 1.0), "it has it again"


def test_only_the_latest_replicas_are_remembered() -> None:
    places, everyone = PrefixPlaces(), [replica(str(number)) for number in range(MOST_PLACES + 3)]
    for one in everyone:
        places.sent(chain(1), one)
    assert set(places.known(chain(1), 1.0)) == set(everyone[3:])


Sent = st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(0, 3)), max_size=40)


@given(Sent, st.lists(st.integers(0, 2), min_size=1, max_size=5))
def test_knows_exactly_the_longest_common_beginning_of_all_that_was_sent(
    sent: list[tuple[list[int], int]], asked: list[int]
) -> None:
    places, everyone = PrefixPlaces(), [replica(str(number)) for number in range(4)]
    expected: dict[Replica, int] = {}
    for numbers, target in sent:
        places.sent(chain(*numbers), everyone[target])
        same = 0
        while same < min(len(numbers), len(asked)) and numbers[same] == asked[same]:
            same += 1
        if same:
            expected[everyone[target]] = max(expected.get(everyone[target], 0), LENGTHS[same - 1])
    assert places.known(chain(*asked), 1.0) == expected


def test_memory_is_bounded() -> None:
    places, one = PrefixPlaces(), replica("a", remembers=10**9)
    tracemalloc.start()
    for number in range(MOST_BEGINNINGS // 8 + 10):
        places.sent([8 * 2**40 * number + step for step in range(8)], one)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(places) == MOST_BEGINNINGS
    assert held < 12 * 2**20
    assert places.known([8 * 2**40 * number], 1.0) == {one: LENGTHS[0]}, "the latest is there"
    assert places.known([0], 1.0) == {}
