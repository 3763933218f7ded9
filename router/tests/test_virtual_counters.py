"""Whose turn it is: exactly who has had least, bounded unfairness, no saved up turns, and no growth."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workslice_router.virtual_counters import MOST_REMEMBERED, VirtualCounters

LARGEST = 1000
KEYS = st.sampled_from("abcd")


def next_of(counters: VirtualCounters) -> str:
    found = counters.first(lambda key: key, 1)
    assert found is not None
    return found


@given(st.lists(st.tuples(st.integers(1, LARGEST), st.integers(1, LARGEST), st.integers(1, LARGEST)), min_size=1))
def test_of_those_who_always_wait_none_gets_more_than_one_request_ahead(sizes: list[tuple[int, int, int]]) -> None:
    counters = VirtualCounters()
    had = dict.fromkeys("abc", 0)
    for key in had:
        counters.enter(key)
    for drawn in sizes:
        key = next_of(counters)
        size = drawn["abc".index(key)]
        counters.charge(key, size)
        had[key] += size
        assert max(had.values()) - min(had.values()) <= LARGEST
        assert all(counters.counter(one) == amount for one, amount in had.items())


def test_who_comes_back_has_saved_up_nothing() -> None:
    counters = VirtualCounters()
    counters.enter("absent")
    counters.leave("absent")
    counters.enter("busy")
    counters.charge("busy", 700)
    counters.enter("absent")
    assert counters.counter("absent") == 700


def test_what_somebody_had_too_much_of_is_remembered_through_a_pause() -> None:
    counters = VirtualCounters()
    counters.enter("patient")
    counters.enter("greedy")
    counters.charge("greedy", 5000)
    counters.leave("greedy")
    counters.charge("greedy", 300)
    counters.enter("greedy")
    assert counters.counter("greedy") == 5300
    assert next_of(counters) == "patient"


def test_among_equals_the_lower_rank_goes_first_then_who_was_served_longest_ago() -> None:
    counters = VirtualCounters()
    counters.enter("second", 1)
    counters.enter("first", -1)
    assert next_of(counters) == "first"
    counters = VirtualCounters()
    for key in "ab":
        counters.enter(key)
    for _ in range(3):
        for key in "ab":
            assert next_of(counters) == key
            counters.charge(key, 10)


def test_asks_no_more_than_it_should() -> None:
    counters = VirtualCounters()
    for key in "abcdef":
        counters.enter(key)
    asked: list[str] = []
    assert counters.first(lambda key: asked.append(key), 3) is None
    assert asked == ["a", "b", "c"]
    assert next_of(counters) == "a"


def test_a_hundred_thousand_callers_that_come_and_go_do_not_pile_up() -> None:
    counters = VirtualCounters()
    counters.enter("stays")
    for number in range(100_000):
        key = f"caller-{number}"
        counters.enter(key)
        counters.charge(key, number)
        counters.leave(key)
    assert len(counters._resting) <= MOST_REMEMBERED
    assert len(counters._order) < 200
    assert len(counters._ranks) == len(counters._current) == len(counters) == 1


class CountersMachine(RuleBasedStateMachine):
    """Beside a model that sorts everything anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.counters = VirtualCounters()
        self.waiting: dict[str, tuple[int, int, int]] = {}
        self.resting: dict[str, int] = {}
        self.last_left = 0
        self.steps = 0

    @rule(key=KEYS, rank=st.integers(-1, 1))
    def enter(self, key: str, rank: int) -> None:
        if key in self.waiting:
            return
        floor = min((one[0] for one in self.waiting.values()), default=self.last_left)
        self.steps += 1
        self.waiting[key] = (max(floor, self.resting.pop(key, floor)), rank, self.steps)
        self.counters.enter(key, rank)

    @rule(key=KEYS)
    def leave(self, key: str) -> None:
        if key in self.waiting:
            self.last_left = self.resting[key] = self.waiting.pop(key)[0]
            self.counters.leave(key)

    @rule(key=KEYS, amount=st.integers(-200, LARGEST))
    def charge(self, key: str, amount: int) -> None:
        self.counters.charge(key, amount)
        if key in self.waiting:
            self.steps += 1
            before, rank, _ = self.waiting[key]
            self.waiting[key] = (before + amount, rank, self.steps)
        elif key in self.resting:
            self.resting[key] += amount

    @rule(fitting=st.sets(KEYS), most=st.integers(1, 4))
    def look_for_one_that_fits(self, fitting: set[str], most: int) -> None:
        expected = next((key for key in self.ordered()[:most] if key in fitting), None)
        assert self.counters.first(lambda key: key if key in fitting else None, most) == expected

    @invariant()
    def the_order_is_that_of_the_model(self) -> None:
        asked: list[str] = []
        self.counters.first(lambda key: asked.append(key), 10)
        assert asked == self.ordered()
        assert {key: self.counters.counter(key) for key in asked} == {key: self.waiting[key][0] for key in asked}

    def ordered(self) -> list[str]:
        return sorted(self.waiting, key=self.waiting.__getitem__)


TestCountersMachine = CountersMachine.TestCase
