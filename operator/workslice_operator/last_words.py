"""Finds in the end of an engine's log the one line that says why it died, and what the user can do about it."""

import re
from dataclasses import dataclass
from typing import Final

MAX_LINE: Final = 400
_PREFIX: Final = re.compile(
    r"^\(\w+ pid=\d+\)\s*|^(?:ERROR|WARNING|INFO|CRITICAL) [\d: .-]+\[[^\]]*\]\s?|\x1b\[[0-9;]*m"
)
_USAGE: Final = re.compile(r"^\S.*?: error: (?P<text>.+)$")
EXCEPTION: Final = re.compile(r"^(?:[\w]+\.)*\w*(?:Error|Exception|Exit|NotFound|Interrupt)\b: (?P<text>.+)$")
_VALIDATION: Final = re.compile(r"^\s+(?:Value error, |Assertion failed, )?(?P<text>.+?) \[type=.*$")
_GENERIC: Final = re.compile(
    r"Engine core initialization failed|See root cause above|WorkerProc initialization failed|EngineCore encountered an issue"
)

_ADVICE: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), advice)
    for pattern, advice in (
        (
            r"unrecognized arguments|^argument -|invalid choice|expected \w+ argument",
            "correct engine.extraArgs of the profile",
        ),
        (
            r"max_model_len .* is greater than the derived",
            "lower workspace.maxTokens of the profile to what the model supports",
        ),
        (
            r"KV cache is needed|available KV cache memory|No available memory for the cache blocks",
            "raise memory.kvCache or memory.gpuUtilization of the profile, lower workspace.maxTokens, or take a larger slice",
        ),
        (
            r"out of memory|Free memory on device",
            "take a larger slice, or lower memory.gpuUtilization or memory.kvCache of the profile",
        ),
        (r"gated repo|401|403|access to .* restricted", "give the pool a token for the hub: template.modelSecretRef"),
        (
            r"repository not found|not a valid model identifier|LocalEntryNotFound|cannot find an appropriate cached snapshot"
            r"|couldn't connect|couldn't find them in the cached files",
            "correct model.source of the profile, and see that the engine can reach the hub",
        ),
        (
            r"permission denied|read-only file system",
            "make the files readable for every user: engines run as user 65532",
        ),
        (r"does not exist|no such file", "correct the path in model.source of the profile"),
    )
)
_NOT_A_REPOSITORY: Final = re.compile(r"Repo id must be in the form .*?: '(?P<path>/[^']*)'")


@dataclass(frozen=True)
class LastWords:
    """What an engine said last."""

    line: str
    """The telling line; empty when the log has none."""
    advice: str
    """What to do; empty when only the whole log can tell."""
    generic: bool = False
    """The line only says that the cause stands further up in the log."""


def last_words(log: str) -> LastWords:
    """Read the end of a log, as a container's termination message holds it."""
    line = _telling_line(log)
    missing = _NOT_A_REPOSITORY.search(line)
    if missing:
        # The library takes a path that is not there for a hub id, and complains of its form.
        line = f"the model path {missing['path']} does not exist in the engine's file system"
    line = shortened(line)
    return LastWords(line, advice_on(line), _GENERIC.search(line) is not None)


def advice_on(line: str) -> str:
    """What to do about an error; empty when nothing is known of it."""
    return next((advice for pattern, advice in _ADVICE if pattern.search(line)), "")


def shortened(line: str) -> str:
    """A line that fits into a condition."""
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


def _telling_line(log: str) -> str:
    lines = [clean(line) for line in log.splitlines()]
    generic = ""
    for index in range(len(lines) - 1, -1, -1):
        match = _USAGE.match(lines[index]) or EXCEPTION.match(lines[index])
        if match is None:
            continue
        text = match["text"].strip()
        if _GENERIC.search(text):
            generic = generic or text
            continue
        detail = _VALIDATION.match(lines[index + 1]) if "validation error" in text and index + 1 < len(lines) else None
        return detail["text"].strip() if detail else text
    return generic or next((line.strip() for line in reversed(lines) if line.strip()), "")


def clean(line: str) -> str:
    """A line of a log without what logging puts before it."""
    previous = None
    while previous != line:
        previous, line = line, _PREFIX.sub("", line)
    return line.rstrip()
