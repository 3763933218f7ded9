"""Streams that are cut, split, framed and ended in any way: a client gets a whole answer, or is told that it is not whole."""

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from router_under_test import Answer, chat, running_router
from scripted_engine import DONE, LAST_CHUNK, EngineRequest, Wire, chunk, scripted_engine, token

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
ROLE = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
COMMENT = b": still here\n\n"
ERROR = b'data: {"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}}\n\n'
ABORT = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}\n\n'


@dataclass(frozen=True)
class Script:
    """What the first engine sends for the first request; for later ones, and from the other engine, come the same events whole."""

    tokens: int
    role: bool
    comment_at: int
    framing: str
    off_by: int
    last_word: bytes
    """Stands before [DONE], or in place of it and all that follows the event before it."""
    last_word_at: int
    cut_at: int | None
    """Bytes after which the connection ends."""
    resets: bool
    sizes: tuple[int, ...]
    """Of the pieces in which the bytes go out."""

    @property
    def whole(self) -> list[bytes]:
        events = [token(f"word {number}") for number in range(self.tokens)]
        events = [ROLE, *events] if self.role else events
        events.insert(min(self.comment_at, len(events)), COMMENT)
        return [*events, DONE]

    @property
    def sent(self) -> list[bytes]:
        if self.last_word == DONE:
            return self.whole
        before = self.whole[: min(self.last_word_at, len(self.whole) - 1)]
        return [*before, *([self.last_word, DONE] if self.last_word else [])]

    @property
    def bytes(self) -> bytes:
        body = b"".join(self.sent)
        match self.framing:
            case "chunked":
                raw = HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"".join(map(chunk, self.sent)) + LAST_CHUNK
            case "length":
                raw = HEAD + b"content-length: %d\r\n\r\n" % max(0, len(body) + self.off_by) + body
            case _:
                raw = HEAD + b"connection: close\r\n\r\n" + body
        return raw if self.cut_at is None else raw[: self.cut_at]

    @property
    def stays_open(self) -> bool:
        return self.framing != "close" and self.cut_at is None and (self.framing != "length" or self.off_by <= 0)

    async def play(self, request: EngineRequest, wire: Wire) -> None:
        rest = self.bytes
        for size in self.sizes:
            wire.write(rest[:size])
            rest = rest[size:]
            await asyncio.sleep(0)
        wire.write(rest)
        if self.resets and not self.stays_open:
            await asyncio.sleep(0)
            wire.abort()
        elif not self.stays_open:
            wire.close()


SCRIPTS = st.builds(
    Script,
    tokens=st.integers(1, 4),
    role=st.booleans(),
    comment_at=st.integers(0, 6),
    framing=st.sampled_from(["chunked", "length", "close"]),
    off_by=st.sampled_from([0, 0, 7, -7, -40]),
    last_word=st.sampled_from([DONE, DONE, DONE, ERROR, ABORT, b""]),
    last_word_at=st.integers(0, 6),
    cut_at=st.none() | st.integers(0, 900),
    resets=st.booleans(),
    sizes=st.lists(st.integers(1, 120), max_size=8).map(tuple),
)


async def asked_twice(script: Script) -> tuple[Answer, Answer]:
    async def first_then_whole(request: EngineRequest, wire: Wire) -> None:
        await (script if len(faulty.requests) == 1 else whole).play(request, wire)

    whole = Script(script.tokens, script.role, script.comment_at, "chunked", 0, DONE, 0, None, False, ())
    async with (
        scripted_engine(first_then_whole) as faulty,
        scripted_engine(whole.play) as good,
        running_router(faulty, good) as router,
    ):
        return await router.ask(chat(stream=True)), await router.ask(chat(stream=True))


def events_of(body: bytes) -> list[bytes]:
    *events, rest = body.split(b"\n\n")
    assert rest == b"", f"ends in the middle of an event: {rest!r}"
    return [event + b"\n\n" for event in events]


@given(SCRIPTS)
@settings(max_examples=100)
def test_an_answer_is_whole_or_says_that_it_is_not_and_the_next_one_is_its_own(script: Script) -> None:
    first, second = asyncio.run(asked_twice(script))
    events = events_of(first.body) if first.status == 200 else []
    if first.status != 200:
        assert ERROR in script.sent, "an error that no engine sent"
        assert not any(b"word" in event for event in script.sent[: script.last_word_at])
    elif first.complete:
        assert events == script.whole
    else:
        assert events[:-1] == script.sent[: len(events) - 1]
        assert DONE not in events
        assert b'"error"' in events[-1]
        assert any(b"word" in event for event in events), "another engine could have answered"
    assert (second.status, second.complete, second.body) == (200, True, b"".join(script.whole))
