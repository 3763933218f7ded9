"""The line of a class: what it counts, beside counting anew."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from workslice_router.class_line import ClassLine, Waiter

CALLERS = ("anna", "bert", "carl")


class LineMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.line = ClassLine()
        self.inside: list[Waiter] = []
        self.arrivals = 0

    @rule(caller=st.sampled_from(CALLERS), deadline=st.integers(0, 9), count=st.integers(1, 4))
    def push(self, caller: str, deadline: int, count: int) -> None:
        for _ in range(count):
            waiter = Waiter("short", 0, caller, float(deadline), 60.0, 0.0, 1, 1, 1)
            self.arrivals += 1
            waiter.arrival = self.arrivals
            self.line.push(waiter)
            self.inside.append(waiter)

    @rule(index=st.integers(0, 50))
    def remove(self, index: int) -> None:
        if self.inside:
            self.line.remove(self.inside.pop(index % len(self.inside)))

    @rule(fitting=st.sets(st.sampled_from(CALLERS)))
    def the_first_is_the_earliest_of_its_caller(self, fitting: set[str]) -> None:
        got = self.line.first(lambda one: one.caller in fitting)
        able = [one for one in self.inside if one.caller in fitting]
        assert (got is None) == (not able)
        if got is not None:
            same = [one for one in able if one.caller == got.caller]
            assert got is min(same, key=lambda one: (one.deadline, one.arrival))

    @invariant()
    def counts_are_right(self) -> None:
        counts = Counter(one.caller for one in self.inside)
        assert self.line.waiting == len(self.inside)
        assert self.line.most == max(counts.values(), default=0)
        assert [self.line.count(caller) for caller in CALLERS] == [counts[caller] for caller in CALLERS]
        for limit in range(8):
            assert self.line.count_up_to(limit) == sum(min(count, limit) for count in counts.values())

    @invariant()
    def the_greediest_has_most_and_its_last_comes_last(self) -> None:
        if self.inside:
            got = self.line.last_of_the_greediest()
            counts = Counter(one.caller for one in self.inside)
            assert counts[got.caller] == max(counts.values())
            assert got.arrival == max(one.arrival for one in self.inside if one.caller == got.caller)


TestLineMachine = LineMachine.TestCase
