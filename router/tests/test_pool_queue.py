"""The waiting line of a pool."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workslice_router.class_line import Waiter
from workslice_router.pool_queue import STEPS, PoolQueue

LARGEST = 500


def waiter(
    class_name: str = "short",
    *,
    priority: int = 0,
    caller: str = "anna",
    deadline: float = 60.0,
    expires: float = 60.0,
    enqueued: float = 0.0,
    size: int = 10,
    tokens: int = 5,
) -> Waiter:
    return Waiter(class_name, priority, caller, deadline, expires, enqueued, size, tokens, 2 * tokens)


def expires(waiter: Waiter) -> float:
    return waiter.expires


def pop(queue: PoolQueue, now: float = 0.0) -> Waiter | None:
    return queue.pop(lambda _: True, now)


@given(st.lists(st.integers(0, 100), max_size=40))
def test_of_one_caller_the_earliest_deadline_leaves_first_then_the_first_arrival(deadlines: list[int]) -> None:
    queue = PoolQueue()
    waiters = [waiter(deadline=float(deadline)) for deadline in deadlines]
    for one in waiters:
        queue.push(one)
    left = [one for _ in waiters if (one := pop(queue)) is not None]
    assert left == sorted(waiters, key=lambda one: (one.deadline, one.arrival))


@given(
    st.lists(st.integers(1, LARGEST), min_size=60, max_size=60),
    st.integers(-6, 6),
    st.integers(-6, 6),
)
def test_classes_that_always_wait_share_tokens_by_weight(sizes: list[int], first: int, second: int) -> None:
    queue = PoolQueue()
    for number, size in enumerate(sizes):
        name, priority = (("a", first), ("b", second))[number % 2]
        queue.push(waiter(name, priority=priority, tokens=size))
    waiting = Counter({"a": 30, "b": 30})
    had = {"a": 0.0, "b": 0.0}
    weights = {name: 2.0 ** max(-STEPS, min(STEPS, -one)) for name, one in (("a", first), ("b", second))}
    while all(waiting.values()):
        got = pop(queue)
        assert got is not None
        had[got.class_name] += got.tokens / weights[got.class_name]
        waiting[got.class_name] -= 1
        assert abs(had["a"] - had["b"]) <= LARGEST / min(weights.values())


def test_the_class_of_lower_priority_goes_first_and_no_class_waits_for_ever() -> None:
    queue = PoolQueue()
    for _ in range(100):
        queue.push(waiter("plain"))
        queue.push(waiter("urgent", priority=-1000))
    order = [got.class_name for _ in range(50) if (got := pop(queue)) is not None]
    assert order[0] == "urgent"
    assert order.count("plain") == 3, "every seventeenth, and the first turn is nobody's debt"


def test_a_class_whose_waiters_have_used_half_of_their_time_gets_twice_as_much() -> None:
    shares = []
    for now in (10.0, 40.0):
        queue = PoolQueue()
        for _ in range(60):
            queue.push(waiter("new", enqueued=now, expires=now + 60))
            queue.push(waiter("old"))
        order = [got.class_name for _ in range(30) if (got := pop(queue, now)) is not None]
        shares.append(order.count("old"))
    assert shares == [15, 20]


@given(st.lists(st.tuples(st.sampled_from(["anna", "bert", "carl"]), st.integers(1, LARGEST)), max_size=60))
def test_callers_that_wait_share_what_it_costs(drawn: list[tuple[str, int]]) -> None:
    queue = PoolQueue()
    waiting: Counter[str] = Counter()
    for caller, size in drawn:
        queue.push(waiter(caller=caller, tokens=size))
        waiting[caller] += 1
    had = dict.fromkeys(waiting, 0)
    while all(waiting.values()):
        got = pop(queue)
        if got is None:
            break
        had[got.caller] += got.cost
        waiting[got.caller] -= 1
        assert max(had.values()) - min(had.values()) <= 2 * LARGEST


def test_a_caller_with_one_request_is_next_behind_thousands_of_another() -> None:
    queue = PoolQueue()
    for _ in range(5000):
        queue.push(waiter(caller="flood"))
    pop(queue)
    late = waiter(caller="late")
    queue.push(late)
    assert late in (pop(queue), pop(queue))


def test_what_an_engine_counted_is_charged_instead_of_the_estimate() -> None:
    queue = PoolQueue()
    for _ in range(3):
        queue.push(waiter())
        queue.push(waiter(caller="bert"))
    first = pop(queue)
    assert first is not None
    queue.charge(first, 20, 40)  # as much as four further requests
    assert [got.caller for _ in range(4) if (got := pop(queue)) is not None] == ["bert", "bert", "bert", "anna"]


def test_a_waiter_that_fits_may_pass_one_that_does_not() -> None:
    queue = PoolQueue()
    first, second, other_caller = waiter(), waiter(), waiter(caller="bert")
    for one in (first, second, other_caller):
        queue.push(one)
    assert queue.pop(lambda one: one is second, 0.0) is second
    assert queue.pop(lambda one: one is other_caller, 0.0) is other_caller
    assert pop(queue) is first


def test_a_class_that_fits_nowhere_keeps_no_other_waiting() -> None:
    queue = PoolQueue()
    for number in range(200):
        queue.push(waiter("huge", caller=f"caller-{number}"))
    one = waiter("small", priority=9)
    queue.push(one)
    assert queue.pop(lambda other: other.class_name == "small", 0.0) is one


def test_expires_only_those_whose_time_is_over() -> None:
    queue = PoolQueue()
    early, late = waiter(expires=5.0), waiter(expires=50.0, deadline=1.0)
    queue.push(late)
    queue.push(early)
    assert queue.pop_expired(4.9, expires) == []
    assert queue.pop_expired(5.0, expires) == [early]
    assert len(queue) == 1


def test_a_time_that_has_become_longer_is_not_over() -> None:
    queue = PoolQueue()
    one, other = waiter(expires=5.0), waiter(expires=6.0)
    queue.push(one)
    queue.push(other)
    assert queue.pop_expired(7.0, lambda waiter: 9.0 if waiter is one else waiter.expires) == [other]
    assert (len(queue), one.expires) == (1, 9.0)
    assert queue.pop_expired(8.9, expires) == []
    assert queue.pop_expired(9.0, expires) == [one]


def test_a_waiter_leaves_once() -> None:
    queue = PoolQueue()
    one = waiter()
    queue.push(one)
    assert queue.remove(one)
    assert not queue.remove(one)
    assert (queue.size, queue.tokens) == (0, 0)


def test_the_oldest_wait_is_that_of_the_first_arrival() -> None:
    queue = PoolQueue()
    queue.push(waiter(enqueued=10.0))
    queue.push(waiter("urgent", enqueued=12.0, priority=-5))
    assert queue.oldest_wait(15.0) == 5.0
    assert PoolQueue().oldest_wait(15.0) == 0.0


def test_thousands_that_leave_early_do_not_pile_up() -> None:
    queue = PoolQueue()
    stays = waiter()
    queue.push(stays)
    for number in range(5000):
        one = waiter(class_name=f"class-{number % 100}", caller=f"caller-{number % 7}")
        same_line = waiter()
        queue.push(one)
        queue.push(same_line)
        queue.remove(one)
        queue.remove(same_line)
    assert len(queue._by_expiry) < 200
    assert len(queue._lines) < 20
    assert len(queue._lines["short"]._lines["anna"].heap) < 50
    assert pop(queue) is stays


def served_every_two_seconds() -> PoolQueue:
    queue = PoolQueue()
    queue.push(waiter())
    for number in range(1, 21):
        queue.push(waiter(caller=f"early-{number}"))
        pop(queue, number * 2.0)
    return queue


def test_the_expected_wait_follows_the_pace_of_late() -> None:
    assert PoolQueue().expected_wait("short", 0, "anna", 0.0) is None
    queue = served_every_two_seconds()
    assert round(queue.expected_wait("short", 0, "bert", 40.0) or 0) == 4


def test_the_expected_wait_is_that_of_the_callers_own_turn() -> None:
    queue = served_every_two_seconds()
    pop(queue, 40.0)
    for _ in range(50):
        queue.push(waiter(caller="flood", enqueued=40.0))
    expected = {caller: queue.expected_wait("short", 0, caller, 40.0) or 0 for caller in ("flood", "bert")}
    assert expected["flood"] > 20 * expected["bert"] > 0


def test_the_expected_wait_behind_another_class_follows_from_the_weights() -> None:
    queue = served_every_two_seconds()
    pop(queue, 40.0)
    for _ in range(40):
        queue.push(waiter("other", enqueued=40.0))
    light, heavy = (queue.expected_wait("short", priority, "bert", 40.0) or 0 for priority in (3, -3))
    assert light > 8 * heavy > 0


def test_the_greediest_caller_makes_room_only_for_one_that_has_much_less() -> None:
    queue = PoolQueue()
    for number in range(3):
        queue.push(waiter(caller="flood", deadline=float(number)))
    queue.push(waiter(caller="bert"))
    greediest = queue.last_of_the_greediest("late")
    assert greediest is not None
    assert (greediest.caller, greediest.deadline) == ("flood", 2.0)
    assert queue.last_of_the_greediest("flood") is None
    queue.push(waiter(caller="bert"))
    assert queue.last_of_the_greediest("bert") is None


class QueueMachine(RuleBasedStateMachine):
    """Any sequence of joins, leaves, grants and time loses nobody and doubles nobody, and the sums are right."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = PoolQueue()
        self.inside: list[Waiter] = []
        self.gone: list[Waiter] = []
        self.now = 0.0

    @rule(
        class_name=st.sampled_from(["short", "long"]),
        caller=st.sampled_from(["anna", "bert"]),
        patience=st.floats(0, 20),
        size=st.integers(0, 1000),
    )
    def join(self, class_name: str, caller: str, patience: float, size: int) -> None:
        one = waiter(
            class_name,
            priority=-1 if class_name == "short" else 1,
            caller=caller,
            deadline=self.now + patience,
            expires=self.now + patience,
            enqueued=self.now,
            size=size,
            tokens=size * 2,
        )
        self.queue.push(one)
        self.inside.append(one)

    @rule(index=st.integers(0, 50))
    def leave(self, index: int) -> None:
        if self.inside:
            one = self.inside.pop(index % len(self.inside))
            assert self.queue.remove(one)

    @rule(parity=st.integers(0, 1))
    def grant_to_some(self, parity: int) -> None:
        self.granted(self.queue.pop(lambda one: one.arrival % 2 == parity, self.now))

    @rule()
    def grant(self) -> None:
        got = pop(self.queue, self.now)
        assert (got is None) == (not self.inside)
        if got is not None:
            same = [one for one in self.inside if (one.class_name, one.caller) == (got.class_name, got.caller)]
            assert got.deadline == min(one.deadline for one in same)
        self.granted(got)

    def granted(self, got: Waiter | None) -> None:
        if got is not None:
            self.inside.remove(got)
            self.gone.append(got)

    @rule(index=st.integers(0, 50), tokens=st.integers(-100, 100))
    def correct_a_charge(self, index: int, tokens: int) -> None:
        if self.gone:
            self.queue.charge(self.gone[index % len(self.gone)], tokens, tokens)

    @rule(step=st.floats(0, 10))
    def pass_time(self, step: float) -> None:
        self.now += step
        for one in self.queue.pop_expired(self.now, expires):
            assert one.expires <= self.now
            self.inside.remove(one)
        assert all(one.expires > self.now for one in self.inside)

    @invariant()
    def sums_are_right(self) -> None:
        assert len(self.queue) == len(self.inside)
        assert self.queue.size == sum(one.size for one in self.inside)
        assert self.queue.tokens == sum(one.tokens for one in self.inside)

    @invariant()
    def who_is_alone_is_expected_next(self) -> None:
        expected = self.queue.expected_wait("short", 0, "carl", self.now)
        assert expected is None or expected >= 0

    def teardown(self) -> None:
        left = [pop(self.queue, self.now) for _ in self.inside]
        assert sorted(one.arrival for one in left if one is not None) == sorted(one.arrival for one in self.inside)


TestQueueMachine = QueueMachine.TestCase
