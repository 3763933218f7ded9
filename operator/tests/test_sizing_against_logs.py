import pytest
from startup_logs import CACHES, REFUSED, STARTED, Cache, Refused, Started

from workslice_operator.sizing import GIB, cache_bytes, nearest_change, size

TOLERANCE = 0.15


def name(log: Started | Refused) -> str:
    return f"{log.model} on {log.gpu}, {log.settings.max_tokens} tokens"


def model(log: Cache) -> str:
    return f"{log.model}, {log.settings.max_tokens} tokens"


def memory(log: Started | Refused) -> int:
    return int(log.memory_gib * GIB)


def test_there_are_enough_logs_and_half_of_them_were_held_out_of_the_fit() -> None:
    assert sum(1 for log in STARTED if log.kv_tokens or log.concurrency) >= 8
    assert sum(1 for log in STARTED if not log.fitted) * 2 >= len(STARTED)


@pytest.mark.parametrize("log", STARTED, ids=name)
def test_what_an_engine_printed_is_predicted(log: Started) -> None:
    predicted = size(log.shape, log.settings, memory(log))
    assert log.kv_gib or log.kv_tokens or log.concurrency
    if log.kv_gib:
        assert predicted.kv_bytes / GIB == pytest.approx(log.kv_gib, rel=TOLERANCE)
    if log.kv_tokens:
        assert predicted.kv_tokens == pytest.approx(log.kv_tokens, rel=TOLERANCE)
    if log.concurrency:
        assert predicted.concurrency == pytest.approx(log.concurrency, rel=TOLERANCE)


@pytest.mark.parametrize("log", CACHES, ids=model)
def test_what_an_engine_made_of_the_memory_that_it_had_left_is_predicted(log: Cache) -> None:
    tokens = int(log.concurrency * log.settings.max_tokens)
    assert cache_bytes(log.shape, log.settings, tokens) / GIB == pytest.approx(log.kv_gib, rel=0.005)


@pytest.mark.parametrize("log", [log for log in STARTED if log.weights_gib], ids=name)
def test_weights_are_predicted_within_two_percent(log: Started) -> None:
    assert size(log.shape, log.settings, memory(log)).weights / GIB == pytest.approx(log.weights_gib, rel=0.02)


@pytest.mark.parametrize("log", STARTED, ids=name)
def test_what_started_fits(log: Started) -> None:
    assert size(log.shape, log.settings, memory(log)).fits


@pytest.mark.parametrize("log", REFUSED, ids=name)
def test_what_did_not_start_is_never_called_fitting(log: Refused) -> None:
    assert not size(log.shape, log.settings, memory(log)).fits


def test_the_context_that_is_proposed_is_one_that_the_engine_would_have_taken() -> None:
    log = next(log for log in REFUSED if "(23648)" in log.said)
    change = nearest_change(log.shape, log.settings, memory(log))
    assert change is not None
    assert 20_000 <= change.settings.max_tokens <= 23_648
