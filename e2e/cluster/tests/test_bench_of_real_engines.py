"""What `make bench-real` offers and how it counts; the rest of it needs engines."""

import sys
from dataclasses import replace

from workslice_cluster.repository import repository

sys.path.append(str(repository() / "bench" / "real"))

from measured import Answered, busy_seconds, figures, quantile, spread, table
from offered import LONG, SHORT, Kind, offered

SHORTS = Kind(per_second=5, words=(2, 9), answer=(3, 6))
LONGS = Kind(per_second=1, words=(50, 90), answer=(1, 1))


def answered(kind: str, arrival: float, first: float, finished: float, replica: str = "a") -> Answered:
    return Answered(kind, replica, arrival, first, finished, tokens=10)


def test_a_seed_offers_the_same_requests_again_and_another_one_others() -> None:
    assert offered(SHORTS, LONGS, 100, seed=1) == offered(SHORTS, LONGS, 100, seed=1)
    assert offered(SHORTS, LONGS, 100, seed=1) != offered(SHORTS, LONGS, 100, seed=2)


def test_short_requests_are_counted_and_long_ones_come_as_long_as_they_do() -> None:
    requests = offered(SHORTS, LONGS, 2000, seed=3)
    shorts, longs = ([one for one in requests if one.kind == kind] for kind in (SHORT, LONG))
    assert len(shorts) == 2000
    assert requests == sorted(requests, key=lambda one: one.arrival)
    assert requests[-1] is shorts[-1]
    assert 350 < shorts[-1].arrival < 450
    assert 0.8 < len(longs) / shorts[-1].arrival < 1.2


def test_lengths_lie_within_the_bounds_of_their_kind() -> None:
    for one in offered(SHORTS, LONGS, 300, seed=4):
        kind = SHORTS if one.kind == SHORT else LONGS
        assert kind.words[0] <= len(one.words) <= kind.words[1]
        assert kind.answer[0] <= one.answer <= kind.answer[1]


def test_prompts_of_two_runs_differ_at_their_beginning_only() -> None:
    one = offered(SHORTS, LONGS, 1, seed=5)[0]
    first, second = one.prompt("A 1"), one.prompt("B 1")
    assert first[0] != second[0]
    assert first[1:] == second[1:]


def test_a_quantile_is_a_value_that_so_many_do_not_exceed() -> None:
    hundred = [float(one) for one in range(1, 101)]
    assert [quantile(hundred, share) for share in (0.01, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert quantile([7.0], 0.01) == 7


def test_a_wait_counts_from_when_the_request_was_due() -> None:
    answers = [answered(SHORT, 1.0, 1.5, 2.0), answered(SHORT, 3.0, 3.1, 5.0), answered(LONG, 4.0, 8.0, 10.0)]
    found = figures(answers, replicas=2, peak_mebibytes=5)
    assert (found.short_mean, found.short_p50, found.short_p99) == (1.5, 1.0, 2.0)
    assert (found.short_first_p50, found.long_first_p50, found.long_p50) == (0.10000000000000009, 4.0, 6.0)
    assert (found.tokens_per_second, found.peak_mebibytes) == (3, 5)


def test_an_engine_is_busy_while_it_has_any_request() -> None:
    overlapping = [answered(SHORT, 0, 1, 10), answered(SHORT, 2, 3, 4), answered(SHORT, 8, 9, 12)]
    assert busy_seconds(overlapping) == 12
    assert busy_seconds([*overlapping, answered(SHORT, 20, 21, 22), answered(LONG, 0, 1, 3, replica="b")]) == 17


def test_repetitions_show_their_median_and_how_far_they_lie_apart() -> None:
    one = figures([answered(SHORT, 0, 1, 2), answered(LONG, 0, 1, 2)], replicas=1, peak_mebibytes=100)
    runs = [one, replace(one, short_first_p99=3.0), replace(one, short_first_p99=9.0)]
    found = spread(runs)["short_first_p99"]
    assert (found.low, found.middle, found.high) == (1, 3, 9)
    lines = table([("B", runs)]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert "3000" in lines[1]
    assert "1000-9000" in lines[2]
