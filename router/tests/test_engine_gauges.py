"""What an engine's page says of its load."""

import time

import pytest
from engine_page import PAGE
from hypothesis import example, given
from hypothesis import strategies as st

from workslice_router.engine_gauges import EngineGauges, read_gauges


def without(name: bytes) -> bytes:
    return b"".join(line for line in PAGE.splitlines(keepends=True) if not line.startswith(b"vllm:" + name + b"{"))


def test_reads_what_vllm_writes() -> None:
    assert read_gauges(PAGE) == EngineGauges(running=3, waiting=2, kv_used=0.25, kv_tokens=31984)


@pytest.mark.parametrize("name", [b"num_requests_running", b"num_requests_waiting"])
def test_a_count_that_is_missing_is_unknown_and_not_zero(name: bytes) -> None:
    assert read_gauges(without(name)) is None


@pytest.mark.parametrize("value", [b"NaN", b"-1", b"+Inf", b"1.5", b"many", b""])
def test_a_count_that_makes_no_sense_is_unknown(value: bytes) -> None:
    assert read_gauges(PAGE.replace(b"} 3.0\n", b"} " + value + b"\n")) is None


def test_the_rest_is_known_without_the_cache() -> None:
    assert read_gauges(without(b"kv_cache_usage_perc")) == EngineGauges(3, 2, None, 31984)
    assert read_gauges(without(b"cache_config_info")) == EngineGauges(3, 2, 0.25, None)


def test_an_older_engine_has_another_name_for_its_cache() -> None:
    old = PAGE.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc").replace(b'kv_cache_size_tokens="31984",', b"")
    assert read_gauges(old) == EngineGauges(3, 2, 0.25, 1999 * 16)


def test_the_cores_of_one_engine_count_together() -> None:
    second = PAGE[PAGE.index(b"# HELP vllm") :].replace(b'engine="0"', b'engine="1"').replace(b"} 0.25", b"} 0.5")
    assert read_gauges(PAGE + second) == EngineGauges(6, 4, 0.5, 2 * 31984)


def test_a_sample_without_labels_or_with_a_time_counts() -> None:
    page = b"vllm:num_requests_running 1\nvllm:num_requests_waiting{} 2 1700000000000\n"
    assert read_gauges(page) == EngineGauges(1, 2, None, None)


@given(st.binary(max_size=400))
@example(b"vllm:num_requests_running")
@example(b"vllm:num_requests_running{")
def test_no_bytes_break_it(noise: bytes) -> None:
    read_gauges(noise)
    read_gauges(PAGE + noise)
    read_gauges(noise + b"\n" + PAGE)


def test_a_large_page_takes_little_time() -> None:
    page = b"".join(b"vllm:e2e_request_latency_seconds_bucket{le=%d} 1\n" % n for n in range(2000)) + PAGE
    best = float("inf")
    for _ in range(20):
        began = time.process_time()
        assert read_gauges(page) is not None
        best = min(best, time.process_time() - began)
    assert best < 1e-3, "a tenth of it on a quiet core"
