"""Conditions keep their transition time while their status stays."""

from workslice_api.conditions import condition, merge_conditions

EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"


def test_transition_time_stays_while_the_status_stays() -> None:
    before = [condition("Ready", True, "PoolReady", "all well", 1, EARLIER)]
    after = merge_conditions(before, [condition("Ready", True, "PoolReady", "still well", 2, LATER)])
    assert (after[0].last_transition_time, after[0].message, after[0].observed_generation) == (EARLIER, "still well", 2)


def test_transition_time_moves_with_the_status() -> None:
    before = [condition("Ready", True, "PoolReady", "", 1, EARLIER)]
    assert (
        merge_conditions(before, [condition("Ready", None, "PoolNotReady", "", 1, LATER)])[0].last_transition_time
        == LATER
    )


def test_long_message_is_cut_to_what_the_schema_allows() -> None:
    assert len(condition("Ready", False, "X", "y" * 9000, 1, LATER).message) <= 4096
