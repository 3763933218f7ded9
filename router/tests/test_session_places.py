"""Where sessions are at home."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.routing_table import Replica, ReplicaSpec
from workslice_router.session_places import (
    MOST_SESSIONS,
    REMEMBERED,
    SessionPlaces,
    first_place,
    session_number,
)


def replicas(count: int) -> list[Replica]:
    return [Replica(ReplicaSpec(f"pod-{number}", "10.0.0.1", 8000)) for number in range(count)]


def number(name: object, model: str = "m") -> int:
    return session_number(model, str(name).encode())


def test_routers_agree_on_the_first_place_without_talking() -> None:
    one, other = replicas(5), list(reversed(replicas(5)))
    for session in range(100):
        places = [first_place(number(session), group) for group in (one, other)]
        assert places[0] is not None
        assert places[1] is not None
        assert places[0].uid == places[1].uid


@pytest.mark.parametrize("count", [2, 3, 7, 16])
def test_sessions_spread_evenly(count: int) -> None:
    everyone = replicas(count)
    homes = Counter(first_place(number(session), everyone) for session in range(400 * count))
    assert len(homes) == count
    assert 300 < min(homes.values()) <= max(homes.values()) < 500


@given(st.integers(2, 9), st.data())
def test_when_a_replica_goes_only_its_own_sessions_move(count: int, data: st.DataObject) -> None:
    everyone = replicas(count)
    gone = data.draw(st.sampled_from(everyone))
    left = [one for one in everyone if one is not gone]
    for session in range(50):
        before = first_place(number(session), everyone)
        if before is not gone:
            assert first_place(number(session), left) is before


def test_a_session_stays_where_it_was_served_until_it_is_forgotten_or_the_replica_leaves() -> None:
    everyone, places, session = replicas(4), SessionPlaces(), number("s")
    home = first_place(session, everyone)
    assert places.place(session, everyone, 0.0) is home
    other = next(one for one in everyone if one is not home)
    places.served(session, other, 0.0)
    assert places.place(session, everyone, REMEMBERED - 1) is other
    assert places.place(session, everyone, REMEMBERED + 1) is home
    places.served(session, other, 0.0)
    other.spec = replace(other.spec, draining=True)
    assert places.place(session, everyone, 1.0) is home


def test_nobody_is_at_home_where_nobody_serves() -> None:
    (only,) = replicas(1)
    only.spec = replace(only.spec, ready=False)
    assert SessionPlaces().place(number("s"), [only], 0.0) is None
    assert SessionPlaces().place(number("s"), [], 0.0) is None


def test_the_same_name_is_another_session_of_another_model() -> None:
    assert number("s", "m") != number("s", "n")
    assert session_number("é" * 300, b"\xff" * 5000) > 0


def test_memory_is_bounded_and_the_oldest_are_forgotten() -> None:
    places, everyone = SessionPlaces(), replicas(8)
    homes = {
        session: next(one for one in everyone if one is not first_place(number(session), everyone))
        for session in (0, 1)
    }
    for session, home in homes.items():
        places.served(number(session), home, 0.0)
    for session in range(2, MOST_SESSIONS + 1):
        places.served(number(session), everyone[0], 0.0)
    assert len(places) == MOST_SESSIONS
    assert places.place(number(0), everyone, 0.0) is not homes[0]
    assert places.place(number(1), everyone, 0.0) is homes[1]
