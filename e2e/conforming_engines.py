"""The engines of the conformance tests: all of them are started when the first test asks, for every file of tests."""

import atexit
import contextlib
import functools
import tempfile
from pathlib import Path

from engine_processes import Pair, pair
from workslice_cluster.cluster_error import ClusterError

CONTEXT = 2048
"""Tokens of prompt and answer together in the wide engines."""
LONG_CONTEXT = 8192
"""The same in the narrow ones, so that an answer can take seconds."""


def wide_engines() -> Pair:
    """Eight places, and KV blocks for two contexts: 2 MiB at 512 bytes a token."""
    return _engines()[0]


def narrow_engines() -> Pair:
    """One place, three requests and a small backlog of prompts at most, and every flag that adds something to answers."""
    return _engines()[1]


BACKLOG = 1000
"""Tokens of prompts that wait, at which the narrow engines refuse more."""
_LIMITS = ("--max-num-queued-reqs", "3", "--max-num-queued-tokens", str(BACKLOG))
_ADDITIONS = (
    *("--sse-keep-alive-interval", "1", "--enable-request-id-headers", "--enable-server-load-tracking"),
    *("--enable-prompt-tokens-details", "--enable-force-include-usage"),
)


def _engines() -> tuple[Pair, Pair]:
    started = _started()
    if isinstance(started, Exception):
        raise started
    return started


@functools.cache
def _started() -> tuple[Pair, Pair] | Exception:
    """Two pairs, since two tests end their engines; all start at once, and once: what went wrong is kept for the other tests."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    wide = pair("wide", logs, workspace=_places(8, CONTEXT), memory=_memory("2Mi"))
    narrow = pair("narrow", logs, *_LIMITS, *_ADDITIONS, workspace=_places(1, LONG_CONTEXT), memory=_memory("8Mi"))
    pairs = stack.enter_context(wide), stack.enter_context(narrow)
    try:
        for one in pairs:
            one.both(lambda engine: engine.wait_until_ready())
    except ClusterError as error:
        stack.close()
        return error
    return pairs


def _places(number: int, context: int) -> dict[str, int]:
    return {"maxTokens": context, "maxConcurrent": number}


def _memory(kv_cache: str) -> dict[str, str]:
    return {"host": "3Gi", "kvCache": kv_cache}
