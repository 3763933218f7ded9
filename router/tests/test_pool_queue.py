"""The waiting line of a pool."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workslice_router.pool_queue import PoolQueue, Waiter


def waiter(priority: int = 0, deadline: float = 60.0, enqueued: float = 0.0, size: int = 10, tokens: int = 5) -> Waiter:
    return Waiter(priority, deadline, enqueued, size, tokens)


@given(st.lists(st.tuples(st.integers(-2, 2), st.floats(0, 100)), max_size=40))
def test_leaves_by_priority_then_deadline_then_arrival(drawn: list[tuple[int, float]]) -> None:
    queue = PoolQueue()
    waiters = [waiter(priority, deadline) for priority, deadline in drawn]
    for one in waiters:
        queue.push(one)
    left = [one for _ in waiters if (one := queue.pop(lambda _: True)) is not None]
    assert left == sorted(waiters, key=lambda one: (one.priority, one.deadline, one.arrival))


def test_a_waiter_that_fits_may_pass_one_that_does_not() -> None:
    queue = PoolQueue()
    first, second = waiter(), waiter()
    queue.push(first)
    queue.push(second)
    assert queue.pop(lambda one: one is second) is second
    assert queue.pop(lambda _: True) is first


def test_expires_only_those_whose_deadline_has_passed() -> None:
    queue = PoolQueue()
    early, late = waiter(deadline=5.0), waiter(deadline=50.0, priority=-1)
    queue.push(late)
    queue.push(early)
    assert queue.pop_expired(4.9) == []
    assert queue.pop_expired(5.0) == [early]
    assert len(queue) == 1


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
    queue.push(waiter(enqueued=12.0, priority=-5))
    assert queue.oldest_wait(15.0) == 5.0
    assert PoolQueue().oldest_wait(15.0) == 0.0


def test_thousands_that_leave_early_do_not_pile_up() -> None:
    queue = PoolQueue()
    for _ in range(5000):
        one = waiter()
        queue.push(one)
        queue.remove(one)
    assert len(queue._by_order) < 200
    assert len(queue._by_deadline) < 200


def test_the_expected_wait_follows_the_pace_of_late() -> None:
    queue = PoolQueue()
    assert queue.expected_wait() is None
    for now in range(20):
        queue.place_came_free(float(now) * 2)
    queue.push(waiter())
    assert queue.expected_wait() == 4.0


class QueueMachine(RuleBasedStateMachine):
    """Any sequence of joins, leaves, grants and time loses nobody, and the sums are right."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = PoolQueue()
        self.inside: list[Waiter] = []
        self.now = 0.0

    @rule(priority=st.integers(-1, 1), patience=st.floats(0, 20), size=st.integers(0, 1000))
    def join(self, priority: int, patience: float, size: int) -> None:
        one = waiter(priority, self.now + patience, self.now, size, size * 2)
        self.queue.push(one)
        self.inside.append(one)

    @rule(index=st.integers(0, 50))
    def leave(self, index: int) -> None:
        if self.inside:
            one = self.inside.pop(index % len(self.inside))
            assert self.queue.remove(one)

    @rule(parity=st.integers(0, 1))
    def grant_to_some(self, parity: int) -> None:
        got = self.queue.pop(lambda one: one.arrival % 2 == parity)
        if got is not None:
            self.inside.remove(got)

    @rule()
    def grant(self) -> None:
        got = self.queue.pop(lambda _: True)
        assert (got is None) == (not self.inside)
        if got is not None:
            assert (got.priority, got.deadline) == min((one.priority, one.deadline) for one in self.inside)
            self.inside.remove(got)

    @rule(step=st.floats(0, 10))
    def pass_time(self, step: float) -> None:
        self.now += step
        for one in self.queue.pop_expired(self.now):
            assert one.deadline <= self.now
            self.inside.remove(one)
        assert all(one.deadline > self.now for one in self.inside)

    @invariant()
    def sums_are_right(self) -> None:
        assert len(self.queue) == len(self.inside)
        assert self.queue.size == sum(one.size for one in self.inside)
        assert self.queue.tokens == sum(one.tokens for one in self.inside)


TestQueueMachine = QueueMachine.TestCase
