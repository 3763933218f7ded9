from hypothesis import given
from hypothesis import strategies as st

from workslice_router.retry_budget import PER_SECOND, SHARE, SPARE, RetryBudget


def taken(budget: RetryBudget, asked: int, *, concurrent: int = 4, sent: int = 0, now: float = 0.0) -> int:
    return sum(budget.take(concurrent, sent, now) for _ in range(asked))


def test_a_lone_request_may_be_tried_again() -> None:
    assert taken(RetryBudget(), 1, sent=1, now=1000.0) == 1


def test_all_requests_of_a_replica_that_dies_may_be_tried_again() -> None:
    assert taken(RetryBudget(), 64, concurrent=64, sent=64) == 64


def test_when_everything_fails_a_tenth_is_tried_again() -> None:
    budget, sent, retried = RetryBudget(), 0, 0
    for _ in range(10_000):
        sent += 1
        if budget.take(4, sent, 0.0):
            retried += 1
            sent += 1
    assert retried <= sent * SHARE + 4 + SPARE
    assert retried >= sent * SHARE


def test_a_second_later_a_lone_request_may_be_tried_again() -> None:
    budget = RetryBudget()
    assert taken(budget, 100) == 4 + SPARE
    assert taken(budget, 1, now=0.5) == 0
    assert taken(budget, 5, now=1.0) == 1


def test_a_permit_that_was_not_used_comes_back() -> None:
    budget = RetryBudget()
    taken(budget, 100)
    budget.give_back()
    assert taken(budget, 5) == 1


def test_replicas_that_go_take_no_permit_with_them() -> None:
    budget = RetryBudget()
    taken(budget, 100, sent=1000)
    assert taken(budget, 5, sent=10) == 0
    assert taken(budget, 5, sent=30) == 2


@given(
    concurrent=st.integers(1, 64),
    steps=st.lists(st.tuples(st.integers(0, 50), st.floats(0, 3), st.integers(0, 50)), max_size=60),
)
def test_never_more_than_a_tenth_the_seconds_and_one_replicas_requests(
    concurrent: int, steps: list[tuple[int, float, int]]
) -> None:
    budget, sent, now, retried = RetryBudget(), 0, 0.0, 0
    for more, seconds, failures in steps:
        sent += more
        now += seconds
        retried += taken(budget, failures, concurrent=concurrent, sent=sent, now=now)
    assert retried <= SHARE * sent + PER_SECOND * now + concurrent + SPARE + 1e-6
