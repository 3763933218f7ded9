from pathlib import Path

import pytest

from workslice_operator.last_words import MAX_LINE, last_words

LOGS = Path(__file__).parent / "engine_logs"
"""The last lines of real vLLM 0.32 processes that died."""


@pytest.mark.parametrize(
    ("log", "line", "advice"),
    [
        ("unrecognized_flag", "unrecognized arguments: --foo", "engine.extraArgs"),
        ("bad_choice", "argument --dtype: invalid choice: 'banana'", "engine.extraArgs"),
        ("missing_path", "the model path /models/none does not exist", "model.source"),
        ("missing_hub_model", "Cannot find an appropriate cached snapshot folder", "model.source"),
        ("context_too_long", "User-specified max_model_len (9999999) is greater", "workspace.maxTokens"),
    ],
)
def test_the_telling_line_of_a_dead_engine_is_found_and_explained(log: str, line: str, advice: str) -> None:
    found = last_words((LOGS / f"{log}.txt").read_text())
    assert found.line.startswith(line)
    assert advice in found.advice


def test_a_death_whose_cause_is_higher_up_in_the_log_gets_no_invented_advice() -> None:
    found = last_words((LOGS / "engine_core_failed.txt").read_text())
    assert found.line.startswith("Engine core initialization failed")
    assert found.advice == ""


def test_the_cause_is_preferred_to_the_error_that_only_reports_it() -> None:
    log = (
        "(EngineCore pid=9) ERROR 11-30 05:41:44 [core.py:1510] ValueError: 1.5 GiB KV cache is needed, which is larger\n"
        "Traceback (most recent call last):\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert last_words(log).line == "1.5 GiB KV cache is needed, which is larger"
    assert "memory.kvCache" in last_words(log).advice


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "take a larger slice"),
        ("OSError: You are trying to access a gated repo.", "template.modelSecretRef"),
        ("PermissionError: [Errno 13] Permission denied: '/models/x'", "readable for every user"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/models/x'", "model.source"),
    ],
)
def test_common_causes_have_advice(log: str, advice: str) -> None:
    assert advice in last_words(log).advice


def test_a_log_without_an_error_gives_its_last_line() -> None:
    assert last_words("INFO 11-30 05:41:44 [x.py:1] started\nbye\n\n").line == "bye"


def test_silence_gives_nothing() -> None:
    assert last_words("") == last_words("\n \n")
    assert last_words("").line == ""


def test_endless_lines_are_cut() -> None:
    assert len(last_words("ValueError: " + "x" * 5000).line) == MAX_LINE
