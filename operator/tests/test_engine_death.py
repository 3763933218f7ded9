from pathlib import Path

import pytest
from pool_facts import make_exit

from workslice_operator.engine_death import core_death, telling_lines, wants_log, was_told_to_end
from workslice_operator.last_words import last_words

LOGS = Path(__file__).parent / "engine_logs"
"""The last lines of real vLLM 0.32 processes that died."""
KILLED = (LOGS / "engine_core_killed.txt").read_text()
ECHO = (
    "(APIServer pid=1) ERROR 11-30 06:05:57 [serving.py:929] vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
    "encountered an issue. See stack trace (above) for the root cause.\n"
)


def test_a_killed_core_died_without_a_word() -> None:
    assert core_death(KILLED) == ""


def test_a_core_that_ends_by_an_exception_says_which_although_every_request_that_ran_complains_after_it() -> None:
    log = (LOGS / "engine_core_crashed.txt").read_text()
    cause = core_death(telling_lines(log + ECHO * 5000))
    assert cause is not None
    assert "No working C++ compiler found" in cause
    assert core_death(log) == cause


def test_what_the_api_server_complained_of_before_is_not_taken_for_the_cause() -> None:
    earlier = "(APIServer pid=1) ERROR 11-30 05:00:00 [serving.py:1] ValueError: temperature must not be negative\n"
    assert core_death(telling_lines(earlier + KILLED)) == ""


@pytest.mark.parametrize(
    "log",
    [
        "",
        "INFO: all is well\n",
        "(APIServer pid=1) INFO [launcher.py:1] [shutdown] API server: shutdown triggered\n",
        ECHO,
        "(EngineCore pid=77) ERROR 11-30 09:08:29 [core.py:1512] EngineCore encountered a fatal error.\n" + ECHO,
    ],
    ids=["silence", "an end of another kind", "told to end", "only complaints about it", "a cause that is not shown"],
)
def test_a_core_is_not_said_to_have_died_without_a_word_where_the_log_does_not_show_it(log: str) -> None:
    assert core_death(telling_lines(log)) is None


def test_an_engine_that_was_told_to_end_is_known_by_its_log() -> None:
    told = "(APIServer pid=1) INFO 11-30 06:05:57 [launcher.py:257] [shutdown] API server: shutdown triggered\n"
    assert was_told_to_end(telling_lines(told))
    assert not was_told_to_end(telling_lines(KILLED))


def test_the_telling_part_of_a_long_log_is_short() -> None:
    noise = 'INFO:     127.0.0.1:41800 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n' * 20_000
    assert len(telling_lines(noise + KILLED)) < 1000
    assert len(telling_lines("ValueError: x\n" * 1000 + "KeyError: " + "y" * 100_000)) < 10_000


def test_a_start_that_fails_is_explained_by_the_whole_log_where_what_kubernetes_keeps_only_points_to_it() -> None:
    log = (LOGS / "kv_cache_too_small.txt").read_text()
    kept = log[-2048:]
    assert wants_log(make_exit(kept))
    assert "Engine core initialization failed" in last_words(kept).line
    told = last_words(telling_lines(log))
    assert "larger than the available KV cache memory" in told.line
    assert "raise memory.kvCache" in told.advice


def test_the_log_is_wanted_where_kubernetes_keeps_no_last_words_or_the_wrong_ones() -> None:
    assert wants_log(make_exit("", reason="Completed", exit_code=0))
    assert wants_log(make_exit((LOGS / "engine_core_failed.txt").read_text()))


@pytest.mark.parametrize(
    "ended",
    [
        make_exit((LOGS / "missing_path.txt").read_text()),
        make_exit("", exit_code=137),
        make_exit("", reason="OOMKilled", exit_code=137),
    ],
    ids=["it said why", "a kill", "out of memory"],
)
def test_the_log_is_not_read_where_it_would_tell_nothing_new(ended: object) -> None:
    assert not wants_log(ended)  # type: ignore[arg-type]
