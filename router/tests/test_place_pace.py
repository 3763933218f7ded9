"""How often places come."""

import pytest

from workslice_router.place_pace import PlacePace


def test_nothing_is_known_before_some_places_were_given() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    assert pace.seconds_each(5.0) is None
    pace.place_given(1.0)
    pace.place_given(2.0)
    assert pace.seconds_each(2.0) is None


def test_it_is_the_mean_of_late() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    for number in range(1, 50):
        pace.place_given(number * 0.5)
    assert pace.seconds_each(24.5) == pytest.approx(0.5)
    for number in range(1, 50):
        pace.place_given(24.5 + number * 2.0)
    assert pace.seconds_each(122.5) == pytest.approx(2.0, rel=0.05)


def test_places_that_come_several_at_once_are_no_faster_than_they_are() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    for batch in range(1, 10):
        for _ in range(8):
            pace.place_given(batch * 4.0)
    assert pace.seconds_each(36.0) == pytest.approx(0.5, rel=0.2)


def test_time_in_which_nobody_waited_does_not_count() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    for number in range(1, 41):
        pace.place_given(number * 0.1)
    pace.starts_at(9.0)
    assert pace.seconds_each(9.0) == pytest.approx(0.1)


def test_what_is_long_ago_is_no_longer_believed() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    for number in range(1, 11):
        pace.place_given(number * 0.1)
    pace.starts_at(600.0)
    assert pace.seconds_each(600.0) is None


def test_no_place_for_long_makes_the_expectation_longer() -> None:
    pace = PlacePace()
    pace.starts_at(0.0)
    for number in range(1, 6):
        pace.place_given(float(number))
    before, later = pace.seconds_each(5.0), pace.seconds_each(35.0)
    assert before is not None
    assert later is not None
    assert later > 4 * before
