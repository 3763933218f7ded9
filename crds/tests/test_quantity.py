"""Quantities and durations read as Kubernetes reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_api.quantity import count_of, duration_seconds, quantity_bytes, quantity_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("16Gi", 16 * 2**30),
        ("1500M", 1_500_000_000),
        ("1", 1),
        ("0.5Ki", 512),
        ("1.0001", 2),
        ("64Mi", 64 * 2**20),
        ("2k", 2000),
    ],
)
def test_memory_quantity_is_bytes_rounded_up(text: str, value: int) -> None:
    assert quantity_bytes(text) == value


def test_milli_quantity_is_a_fraction_of_a_core() -> None:
    assert float(quantity_value("250m")) == 0.25


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("0s", 0)]
)
def test_duration_is_seconds(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 s", "1d", "s", "5s\n", "５s"])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_seconds(text)


@pytest.mark.parametrize("text", ["", "Gi", "-1Gi", "1GiB", "1e3", "1Gi\n", "１Gi"])
def test_text_that_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantity_value(text)


@pytest.mark.parametrize(
    ("amount", "count"),
    [
        ("2", 2),
        (2, 2),
        ("1e3", 1000),
        ("12E1", 120),
        ("5e-1", 0),
        ("1k", 1000),
        ("1P", 10**15),
        ("2Pi", 2**51),
        ("1E", 10**18),
        ("2000m", 2),
        ("1000000u", 1),
        ("1000000000n", 1),
        (".5k", 500),
        ("+3.", 3),
        ("9Ei", 2**63 - 1),
        ("1e2147483647", 2**63 - 1),
        ("1e-2147483647", 0),
    ],
)
def test_somebody_elses_count_is_read_however_kubernetes_writes_it(amount: str | int, count: int) -> None:
    assert count_of(amount) == count


@pytest.mark.parametrize("amount", ["", "many", "-1", "1 k", "１", None, {}])
def test_a_count_that_is_no_quantity_is_refused(amount: object) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        count_of(amount)


@given(st.integers(0, 10**6), st.sampled_from(["Ki", "Mi", "Gi"]))
def test_binary_quantities_grow_with_their_number(number: int, suffix: str) -> None:
    assert quantity_bytes(f"{number}{suffix}") < quantity_bytes(f"{number + 1}{suffix}")
