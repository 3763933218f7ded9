from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workslice_operator.work_queue import JITTER, LONGEST_BACKOFF, WorkQueue


def queue(random: float = 0.5, rest: float = 0.0) -> WorkQueue[str]:
    return WorkQueue(lambda: random, rest_seconds=rest)


def drain(queue: WorkQueue[str], now: float) -> list[str]:
    taken = []
    while (key := queue.take(now)) is not None:
        taken.append(key)
        queue.done(key, now)
    return taken


def test_a_key_added_many_times_runs_once() -> None:
    q = queue()
    for _ in range(10_000):
        q.add("a", 0)
    assert drain(q, 0) == ["a"]


def test_keys_run_in_the_order_in_which_they_came() -> None:
    q = queue()
    for key in "bca":
        q.add(key, 0)
    assert drain(q, 0) == ["b", "c", "a"]


def test_urgent_keys_and_the_others_take_turns() -> None:
    q = queue()
    for key in "abcd":
        q.add(key, 0)
    for key in "uvw":
        q.add(key, 0, urgent=True)
    assert drain(q, 0) == ["u", "a", "v", "b", "w", "c", "d"]


def test_a_queued_key_that_becomes_urgent_goes_ahead_and_runs_once() -> None:
    q = queue()
    for key in "abc":
        q.add(key, 0)
    q.add("c", 0, urgent=True)
    assert q.depth == 3
    assert drain(q, 0) == ["c", "a", "b"]
    q.add("c", 1)
    q.add("d", 1, urgent=True)
    assert drain(q, 1) == ["d", "c"]


def test_a_key_that_became_urgent_while_it_ran_or_rested_still_is() -> None:
    q = queue(rest=1)
    q.add("a", 0)
    q.add("b", 0)
    assert q.take(0) == "a"
    q.add("a", 0, urgent=True)
    q.add("c", 0)
    q.done("a", 0)
    assert q.take(0.5) == "b"
    assert q.take(1) == "a"


def test_a_key_added_while_it_runs_runs_again_and_never_beside_itself() -> None:
    q = queue()
    q.add("a", 0)
    assert q.take(0) == "a"
    q.add("a", 1)
    q.add("a", 2)
    assert q.take(3) is None
    assert q.depth == 1
    q.done("a", 4)
    assert drain(q, 4) == ["a"]


def test_a_delayed_key_waits_until_it_is_due() -> None:
    q = queue()
    q.add_after("a", 10, now=0)
    assert q.next_due() == 10
    assert q.take(9.9) is None
    assert q.take(10) == "a"


def test_of_two_delays_the_earlier_counts() -> None:
    q = queue()
    q.add_after("a", 10, now=0)
    q.add_after("a", 5, now=0)
    q.add_after("a", 20, now=0)
    assert q.take(5) == "a"
    q.done("a", 5)
    assert q.next_due() is None


def test_running_now_cancels_a_delay() -> None:
    q = queue()
    q.add_after("a", 10, now=0)
    q.add("a", 1)
    assert drain(q, 1) == ["a"]
    assert drain(q, 11) == []


def test_failures_back_off_exponentially_up_to_a_limit_and_success_resets() -> None:
    q = queue()
    assert [q.retry("a", 0) for _ in range(4)] == [0.5, 1, 2, 4]
    assert [q.retry("a", 0) for _ in range(40)][-1] == LONGEST_BACKOFF
    q.forget("a")
    assert q.retry("a", 0) == 0.5


@given(st.floats(0, 0.999999), st.integers(0, 60))
def test_jitter_stays_within_its_share(random: float, failures: int) -> None:
    q, exact = queue(random), queue(0.5)
    for _ in range(failures):
        q.retry("a", 0), exact.retry("a", 0)
    middle = exact.retry("a", 0)
    assert middle * (1 - JITTER) <= q.retry("a", 0) <= middle * (1 + JITTER) + 1e-9


def test_an_observer_hears_of_waits_and_works() -> None:
    heard: list[tuple[str, float]] = []

    class Observer:
        def added(self) -> None:
            heard.append(("added", 0))

        def retried(self) -> None:
            heard.append(("retried", 0))

        def queued_for(self, seconds: float) -> None:
            heard.append(("queued", seconds))

        def worked_for(self, seconds: float) -> None:
            heard.append(("worked", seconds))

    q: WorkQueue[str] = WorkQueue(lambda: 0.5, Observer())
    q.add("a", 0)
    q.take(2)
    assert (q.unfinished_seconds(5), q.longest_running_seconds(5)) == (3, 3)
    q.done("a", 7)
    q.retry("a", 7)
    assert heard == [("added", 0), ("queued", 2), ("worked", 5), ("retried", 0)]


KEYS = st.sampled_from("abc")


class AnyUseOfTheQueue(RuleBasedStateMachine):
    """Whatever happens, no key runs twice at once and no wish to run is lost."""

    rest = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.queue = queue(rest=self.rest)
        self.now = 0.0
        self.running: Counter[str] = Counter()
        self.owed: dict[str, float] = {}
        """Key → latest time from which on it must be ready to run."""
        self.rests_until: dict[str, float] = {}

    @rule(key=KEYS, urgent=st.booleans())
    def add(self, key: str, urgent: bool) -> None:
        self.queue.add(key, self.now, urgent)
        self.owed[key] = self.now

    @rule(key=KEYS, seconds=st.floats(0, 100))
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds, self.now)
        self.owed[key] = min(self.owed.get(key, float("inf")), self.now + seconds)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        due = self.now + self.queue.retry(key, self.now)
        self.owed[key] = min(self.owed.get(key, float("inf")), due)

    @rule(seconds=st.floats(0, 200))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        key = self.queue.take(self.now)
        due = {
            one
            for one, when in self.owed.items()
            if max(when, self.rests_until.get(one, 0)) <= self.now and not self.running[one]
        }
        assert (key in due) if due else (key is None)
        if key is not None:
            self.running[key] += 1
            del self.owed[key]

    @precondition(lambda self: +self.running)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(+self.running)))
        self.running[key] -= 1
        self.queue.done(key, self.now)
        self.rests_until[key] = self.now + self.rest

    @invariant()
    def no_key_runs_beside_itself(self) -> None:
        assert all(count <= 1 for count in self.running.values())


test_no_key_is_lost_or_run_beside_itself = AnyUseOfTheQueue.TestCase


class AnyUseOfAQueueWithRests(AnyUseOfTheQueue):
    rest = 20.0


test_no_key_is_lost_or_runs_without_its_rest = AnyUseOfAQueueWithRests.TestCase


def test_a_quarrel_over_an_object_becomes_no_hot_loop() -> None:
    q = queue(rest=0.25)
    runs = 0
    q.add("a", 0)
    for step in range(1000):  # one second in which every run causes the next event at once
        now = step / 1000
        if (key := q.take(now)) is not None:
            runs += 1
            q.done(key, now)
            q.add(key, now)
    assert runs == 4
