"""Reads an engine's server-sent events just far enough to relay them safely.

What passes on is what came, byte for byte, but only whole events: a stream that is cut inside an event can then still be closed with
a readable error event. An `error` object ends the stream, whatever follows: vLLM sends `[DONE]` after its own crash. So does
finish_reason abort, which vLLM sends when it is stopped or paused, and before its `[DONE]`, too.
"""

import re
from typing import Final

import orjson

from workslice_router.usage import ended_by_abort

# A lone \r would also be a line end by the standard. No engine writes it, and at the end of a read it cannot be told from \r\n.
_EVENT_END: Final = re.compile(rb"\r?\n\r?\n")
_LINE_END: Final = re.compile(rb"\r?\n")
# What an event must contain to be worth reading: errors, the end, usage.
_MARKS: Final = (b'"error"', b"[DONE]", b'"prompt_tokens"')
# The first event of a chat, which vLLM sends together with the first token: the next one says whether there is one.
_ONLY_A_ROLE: Final = re.compile(rb'"delta"\s*:\s*\{\s*"role"\s*:\s*"[a-z]*"\s*,\s*"content"\s*:\s*""\s*\}')
_USUAL_END: Final = b"data: [DONE]\n\n"
_LARGEST_HELD_EVENT: Final = 1 << 20
_LONGEST_EVENT_END: Final = 4
_TAIL: Final = 4096


class EventStream:
    """State of one stream of server-sent events."""

    __slots__ = (
        "_held",
        "_in_large_event",
        "_last_read_with_care",
        "_last_unread",
        "_passed",
        "aborted",
        "done",
        "error",
        "started",
        "usage_event",
    )

    def __init__(self) -> None:
        self.started = False
        """An event that is a part of an answer has passed: more than the role of who speaks, and no error."""
        self.done = False
        """`[DONE]` has passed: the answer is complete."""
        self.error: bytes | None = None
        """The JSON of the first event that carries an error object."""
        self.aborted = False
        """The engine gave the request up before its first token."""
        self.usage_event = b""
        """The last event that speaks of prompt_tokens."""
        self._held = b""
        self._in_large_event = False
        self._last_unread = b""  # the end of what last passed on unread
        self._last_read_with_care = b""
        self._passed = 0  # bytes

    @property
    def last_events(self) -> bytes:
        """The last events so far: of a stream that is done, the one that says why its answer ended is among them."""
        return self._last_unread + self._last_read_with_care

    @property
    def events(self) -> int:
        """About how many events have passed: all bytes over the length of the last events, since those of one stream are alike."""
        last = self._last_unread or self._last_read_with_care
        whole = last[last.find(b"\n\n") + 2 :] if len(last) == _TAIL else last  # the first may have lost its beginning
        count = whole.count(b"\n\n")
        return self._passed * count // len(whole) if count else 0

    def feed(self, data: bytes) -> bytes:
        """The bytes to pass on now: whole events, up to and including the first error or `[DONE]`."""
        if (
            self.started
            and not self._held
            and data.endswith(b"\n\n")
            and data.find(b'"error"') < 0  # `in` costs three times as much (see usage.py)
            and data.find(b"[DONE]") < 0
            and data.find(b'"prompt_tokens"') < 0
            and not self.ended
            and not self._in_large_event
        ):
            self._last_unread = data if len(data) <= _TAIL else data[-_TAIL:]
            self._last_read_with_care = b""  # older than that
            self._passed += len(data)
            return data
        passed = self._feed_carefully(data)
        self._passed += len(passed)
        self._last_read_with_care = (self._last_read_with_care + passed[-_TAIL:])[-_TAIL:]
        return passed

    def finish(self) -> bytes:
        """The engine has ended its response: what is still held if that ends the stream, too, with the empty line that it lacks. Any other
        rest is half an event: it says nothing to a client, and would spoil the error event behind it.
        """
        held, self._held = self._held, b""
        if not held or self.ended or self._in_large_event:
            return held
        started = self.started
        self._read_event(held)
        if self.ended:
            return held.rstrip(b"\r\n") + b"\n\n"
        self.started = started
        return b""

    @property
    def ended(self) -> bool:
        """Nothing more will pass."""
        return self.done or self.aborted or self.error is not None

    def _feed_carefully(self, data: bytes) -> bytes:
        if self.ended:
            return b""
        held = len(self._held)
        buffer = self._held + data if held else data
        position = 0
        find_end = _find_end_of_any_kind if buffer.find(b"\r") >= 0 else _find_end
        start, end = find_end(buffer, max(0, held - _LONGEST_EVENT_END))
        while start >= 0:
            if self._in_large_event:
                self._in_large_event = False
            else:
                self._read_event(buffer[position:start])
            position = end
            if self.ended:
                self._held = b""
                return buffer[:position]
            if self.started:
                position = _last_end_before_mark(buffer, position)
            start, end = find_end(buffer, position)
        if len(buffer) - position > _LARGEST_HELD_EVENT:  # not worth the memory: passes on unread
            self._in_large_event = self.started = True
        if self._in_large_event:
            # The last bytes stay, or an end of event that is split over two reads would go unseen.
            position = max(position, len(buffer) - _LONGEST_EVENT_END)
        self._held = buffer[position:]
        return buffer[:position]

    def _read_event(self, event: bytes) -> None:
        values = []
        for line in _LINE_END.split(event):
            name, _, value = line.partition(b":")
            if name.lstrip(b"\xef\xbb\xbf") == b"data":
                values.append(value[1:] if value.startswith(b" ") else value)
        if not values:
            return  # comments (keep-alive) and the like
        data = b"\n".join(values)
        if data.strip() == b"[DONE]":
            self.done = True
        elif b'"error"' in data and _has_error(data):
            self.error = data
        elif not self.started and ended_by_abort(data):
            self.aborted = True
        else:
            self.started = self.started or b'"role"' not in data or _ONLY_A_ROLE.search(data) is None
            if b'"prompt_tokens"' in data:
                self.usage_event = data


def _last_end_before_mark(buffer: bytes, position: int) -> int:
    """Where to read on after `position`, an end of event: the events before the next mark say nothing."""
    # Nearly always only the end is marked, and it comes last.
    before = len(buffer) - len(_USUAL_END) if buffer.endswith(_USUAL_END) else len(buffer)
    for mark in _MARKS:
        at = buffer.find(mark, position, before)
        if at >= 0:
            before = at
    end = buffer.rfind(b"\n\n", position, before) + 2
    if buffer.find(b"\r") >= 0:
        end = max(end, buffer.rfind(b"\n\r\n", position, before) + 3)
    return max(position, end)


def _find_end(buffer: bytes, position: int) -> tuple[int, int]:
    """Where the next end of an event starts and ends, in a buffer without carriage returns; the first is negative when there is none."""
    at = buffer.find(b"\n\n", position)
    return at, at + 2


def _find_end_of_any_kind(buffer: bytes, position: int) -> tuple[int, int]:
    found = _EVENT_END.search(buffer, position)
    return found.span() if found is not None else (-1, -1)


def _has_error(data: bytes) -> bool:
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and (bool(document.get("error")) or document.get("object") == "error")
