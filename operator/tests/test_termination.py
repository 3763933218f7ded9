import pytest

from workslice_operator.render.termination import Termination, termination


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [
        ("120s", Termination(5, 120, 145)),
        ("1500ms", Termination(5, 2, 27)),
        ("0s", Termination(5, 1, 26)),
        ("1h", Termination(5, 3600, 3625)),
    ],
)
def test_every_phase_follows_from_the_drain_timeout(timeout: str, expected: Termination) -> None:
    assert termination(timeout, "0.33.0") == expected


def test_an_engine_that_cannot_drain_is_stopped_only_after_the_drain_time() -> None:
    assert termination("60s", "0.17.0") == Termination(pre_stop=65, shutdown_timeout=60, grace_period=85)
