import pytest
from hypothesis import given
from hypothesis import strategies as st

from workslice_router.event_stream import EventStream

TOKEN = b'data: {"id":"c","choices":[{"delta":{"content":"a"}}]}\n\n'
ERROR = b'data: {"error": {"message": "died", "type": "InternalServerError", "code": 500}}\n\n'
CUT = b'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\n'
DONE = b"data: [DONE]\n\n"
COMMENT = b": keep-alive\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
CRLF_TOKEN = b'event: message\r\ndata: {"id":\r\ndata: "c"}\r\n\r\n'
QUOTED = b'data: {"choices":[{"delta":{"content":"{\\"error\\": 1} [DONE] \\"prompt_tokens\\""}}]}\n\n'
NULL_ERROR = b'data: {"error":null,"choices":[]}\n\n'
LARGE = b'data: {"x":"' + b"y" * 1_200_000 + b'"}\n\n'


def relay(pieces: list[bytes]) -> tuple[EventStream, bytes]:
    stream = EventStream()
    out = b"".join(stream.feed(piece) for piece in pieces)
    return stream, out + stream.finish()


def test_whole_events_pass_unchanged_up_to_done():
    stream, out = relay([TOKEN + QUOTED + NULL_ERROR + USAGE + DONE])
    assert out == TOKEN + QUOTED + NULL_ERROR + USAGE + DONE
    assert (stream.started, stream.done, stream.error) == (True, True, None)
    assert stream.usage_event == USAGE[6:-2]


def test_nothing_follows_an_error_not_even_done():
    stream, out = relay([TOKEN + ERROR + DONE])
    assert out == TOKEN + ERROR
    assert stream.error == ERROR[6:-2]
    assert not stream.done


def test_a_stream_that_begins_with_an_error_has_not_started():
    stream, _ = relay([COMMENT, ERROR])
    assert (stream.started, stream.error is not None) == (False, True)


def test_comments_do_not_start_a_stream():
    stream, out = relay([COMMENT, COMMENT])
    assert (stream.started, out) == (False, COMMENT * 2)


def test_half_an_event_is_held_back():
    stream = EventStream()
    assert stream.feed(TOKEN + TOKEN[:20]) == TOKEN
    assert stream.feed(TOKEN[20:]) == TOKEN


def test_a_last_event_without_its_empty_line_still_counts():
    stream, out = relay([TOKEN + b"data: [DONE]\n"])
    assert (stream.done, out) == (True, TOKEN + DONE)


def test_a_last_error_without_its_empty_line_gets_one_so_that_clients_read_it():
    stream, out = relay([TOKEN + ERROR[:-2]])
    assert (stream.error is not None, out) == (True, TOKEN + ERROR)


@pytest.mark.parametrize("rest", [TOKEN[:30], TOKEN[:-1], b"data: [DO", COMMENT[:-1], b": ", ERROR[:40]])
def test_half_an_event_at_the_end_neither_passes_nor_starts_a_stream(rest: bytes):
    stream, out = relay([rest])
    assert (stream.started, stream.ended, out) == (False, False, b"")
    stream, out = relay([TOKEN + rest])
    assert (stream.started, stream.ended, out) == (True, False, TOKEN)


def test_text_that_only_looks_like_an_error_passes():
    stream, out = relay([QUOTED, b'data: "error"\n\n', b'data: {"error"\n\n', DONE])
    assert stream.error is None
    assert out.startswith(QUOTED)
    assert stream.done


def test_a_huge_event_passes_without_being_held_whole():
    stream = EventStream()
    out, held = b"", 0
    for start in range(0, len(LARGE), 65536):
        out += stream.feed(LARGE[start : start + 65536])
        held = max(held, start + 65536 - len(out))
    out += stream.feed(TOKEN + ERROR)
    assert held < 1_200_000
    assert out == LARGE + TOKEN + ERROR
    assert stream.error is not None


EVENTS = st.lists(
    st.sampled_from([TOKEN, COMMENT, USAGE, CRLF_TOKEN, QUOTED, NULL_ERROR, ERROR, DONE]), min_size=1, max_size=6
)


@given(EVENTS, st.data())
def test_however_the_bytes_are_split_the_result_is_the_same(events: list[bytes], data: st.DataObject):
    whole = b"".join(events)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    (one, out), (other, other_out) = relay([whole]), relay(pieces)
    assert other_out == out
    assert (other.started, other.done, other.error, other.usage_event) == (
        one.started,
        one.done,
        one.error,
        one.usage_event,
    )


@pytest.mark.parametrize("event", [TOKEN, CRLF_TOKEN, ERROR, DONE])
def test_every_single_split_of_one_event_is_understood(event: bytes):
    for cut in range(len(event)):
        stream, out = relay([event[:cut], event[cut:]])
        assert out == event
        assert stream.started or stream.done or stream.error


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize("read", [1, 30, 5000])
def test_about_as_many_events_are_counted_as_came(size: int, read: int):
    events = [b'data: {"id":"c","choices":[{"delta":{"content":"%s"}}]}\n\n' % (b"a" * size)] * 500
    whole = b"".join(events)
    stream, _ = relay([whole[start : start + read] for start in range(0, len(whole), read)] + [DONE])
    assert 480 <= stream.events <= 530


def test_a_stream_without_whole_events_counts_none():
    assert EventStream().events == 0
    assert relay([b": nothing"])[0].events == 0


@pytest.mark.parametrize(
    "pieces",
    [
        [TOKEN, TOKEN, CUT, USAGE, DONE],
        [TOKEN, TOKEN + CUT, USAGE + DONE],
        [TOKEN, CUT[:9], CUT[9:], DONE],
        [TOKEN + CUT + USAGE + DONE],
        [TOKEN, TOKEN * 1000 + CUT, DONE],
    ],
)
def test_the_last_events_tell_why_an_answer_ended_however_they_came(pieces: list[bytes]):
    stream, _ = relay(pieces)
    assert b'"finish_reason":"length"' in stream.last_events
    assert len(stream.last_events) <= 2 * 4096
