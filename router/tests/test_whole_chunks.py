"""Chunks that are taken apart without a parser of HTTP come out as the parser gives them, whatever an engine sends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import STREAM_HEAD, chunk
from test_engine_connection import outcome

from workslice_router.whole_chunks import chunk as written
from workslice_router.whole_chunks import whole_chunks

PIECES = st.one_of(
    st.builds(chunk, st.binary(min_size=1, max_size=40)),
    st.sampled_from(
        [
            *(
                b"0\r\n\r\n",
                b"0\r\nx: y\r\n\r\n",
                b"5;ext=1\r\nhello\r\n",
                b"05\r\nhello\r\n",
                b"A\r\n0123456789\r\n",
                b"5\r\nhell",
            ),
            *(
                b"0x5\r\nhello\r\n",
                b"+5\r\nhello\r\n",
                b" 5\r\nhello\r\n",
                b"5 \r\nhello\r\n",
                b"1_0\r\n0123456789012345\r\n",
            ),
            *(
                b"5\r\nhello\n\n",
                b"5\r\nhelloX\r\n",
                b"5\nhello\r\n",
                b"-5\r\nhello\r\n",
                b"\r\n",
                b"g\r\n",
                b"00\r\n\r\n",
                b"x",
            ),
        ]
    ),
)


@settings(max_examples=300)
@given(st.lists(st.lists(PIECES, max_size=3).map(b"".join), max_size=5))
def test_a_body_in_whole_chunks_is_read_as_the_parser_reads_it(reads: list[bytes]) -> None:
    whole = b"".join((STREAM_HEAD, *reads))
    # Byte by byte nothing is whole, and the parser reads it all. The order of reads after an end is nobody's.
    one_by_one = [whole[at : at + 1] for at in range(len(whole))]
    assert outcome([STREAM_HEAD, *reads], then_closed=True)[:4] == outcome(one_by_one, then_closed=True)[:4]


def test_the_payload_of_several_chunks_comes_out_together() -> None:
    assert whole_chunks(chunk(b"data: a\n\n") + chunk(b"data: b\n\n")) == (b"data: a\n\ndata: b\n\n", False)


def test_the_last_chunk_ends_the_body() -> None:
    assert whole_chunks(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n") == (b"data: [DONE]\n\n", True)


@pytest.mark.parametrize(
    "more", [b"0\r\n", b"0\r\n\r\nx", b"0\r\nx: y\r\n\r\n", b"5\r\nhel", b"5;x\r\nhello\r\n", b"_5\r\nhello\r\n"]
)
def test_anything_else_is_left_to_the_parser(more: bytes) -> None:
    assert whole_chunks(chunk(b"data: a\n\n") + more) is None


@given(st.binary(min_size=1, max_size=3000))
def test_a_chunk_is_written_as_the_standard_says(payload: bytes) -> None:
    assert written(payload) == b"%x\r\n%b\r\n" % (len(payload), payload)
