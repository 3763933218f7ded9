from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from router_under_test import CHAT, post

from workslice_router.api_keys import ApiKeys
from workslice_router.openai_errors import Reason
from workslice_router.request_reader import RequestReader

LIMIT = 100_000
GET = b"GET /v1/models HTTP/1.1\r\nhost: r\r\n\r\n"
CHUNKED = (
    b"POST /v1/completions HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nx-trailer: t\r\n\r\n"
)
UPGRADE = (
    b"POST /v1/completions HTTP/1.1\r\nhost: r\r\nconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    b"http2-settings: x\r\ncontent-length: 5\r\n\r\nhello"
)
UPGRADE_CHUNKED = UPGRADE.replace(b"content-length: 5", b"transfer-encoding: chunked")[:-5] + b"5\r\nhello\r\n0\r\n\r\n"
OLD = b"POST /v1/completions HTTP/1.0\r\ncontent-length: 2\r\n\r\nhi"
LAST = b"POST /v1/completions HTTP/1.1\r\nhost: r\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"
UNKNOWN = b"POST /sleep HTTP/1.1\r\ncontent-length: 4\r\n\r\nbody"


def read(pieces: Iterable[bytes], limit: int = LIMIT) -> RequestReader:
    reader = RequestReader(ApiKeys(None), limit)
    for piece in pieces:
        reader.feed(piece, 0.0)
    return reader


def summary(reader: RequestReader) -> list[tuple[object, ...]]:
    return [
        (
            one.method,
            one.target,
            one.version,
            one.headers,
            one.body if one.refusal is None else b"",
            one.keep_alive,
            one.refusal.reason if one.refusal else None,
        )
        for one in reader.ready
    ]


MESSAGES = [GET, CHUNKED, UPGRADE, UPGRADE_CHUNKED, OLD, LAST, UNKNOWN, post(b"x" * 300), b"garbage\r\n\r\n"]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_split_at_any_byte_changes_nothing(message: bytes):
    whole = summary(read([message, GET]))
    assert whole
    for cut in range(len(message)):
        assert summary(read([message[:cut], message[cut:], GET])) == whole, cut


@given(st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=5), st.data())
def test_pipelined_requests_are_read_alike_however_the_bytes_are_split(messages: list[bytes], data: st.DataObject):
    whole = b"".join(messages)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert summary(read(pieces)) == summary(read([whole]))


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise_and_never_become_a_request_to_an_engine(data: bytes):
    assert not any(one.endpoint and one.endpoint.reaches_engine for one in read([data]).ready)


@given(st.binary(max_size=60), st.integers(0, 400))
def test_damage_inside_a_request_never_raises(damage: bytes, position: int):
    message = post(b'{"model":"tiny"}')
    read([message[:position] + damage + message[position:], GET])


def test_bodies_come_out_whole():
    assert read([CHUNKED]).ready[0].body == b"abc0123456789"
    assert read([UPGRADE]).ready[0].body == b"hello"
    assert read([UPGRADE_CHUNKED]).ready[0].body == b"hello"


def test_after_an_ignored_upgrade_the_next_request_is_read():
    reader = read([UPGRADE + post(b"next") + GET])
    assert [one.body for one in reader.ready] == [b"hello", b"next", b""]


def test_nothing_is_read_after_the_last_request():
    for last in (OLD, LAST):
        reader = read([last + GET, GET])
        assert len(reader.ready) == 1
        assert (reader.ready[0].refusal, reader.ended) == (None, True)


REFUSED = {
    "both lengths": (b"POST %s HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (b"POST %s HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400),
    "negative length": (b"POST %s HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
    "gzip chunks": (b"POST %s HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "chunks twice": (
        b"POST %s HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "unknown coding": (b"POST %s HTTP/1.1\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "chunks in HTTP/1.0": (b"POST %s HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "space before colon": (b"POST %s HTTP/1.1\r\ncontent-length : 0\r\n\r\n", 400),
    "folded header": (b"POST %s HTTP/1.1\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n", 400),
    "bare line feeds": (b"POST %s HTTP/1.1\ncontent-length: 0\n\n", 400),
    "HTTP/2.0": (b"POST %s HTTP/2.0\r\ncontent-length: 0\r\n\r\n", 505),
    "HTTP/0.9": (b"GET %s\r\n\r\n", 505),
    "compressed body": (b"POST %s HTTP/1.1\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n", 415),
    "strange expectation": (b"POST %s HTTP/1.1\r\nexpect: 200-ok\r\ncontent-length: 0\r\n\r\n", 417),
    "too many headers": (b"POST %s HTTP/1.1\r\n" + b"x: 1\r\n" * 200 + b"content-length: 0\r\n\r\n", 431),
    "head too large": (b"POST %s HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\ncontent-length: 0\r\n\r\n", 431),
    "no host": (b"POST %s HTTP/1.1\r\ncontent-length: 0\r\n\r\n", 400),
    "two hosts": (b"POST %s HTTP/1.1\r\nhost: a\r\nhost: a\r\ncontent-length: 0\r\n\r\n", 400),
    "two hosts in HTTP/1.0": (b"POST %s HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    "trailing chunk length": (
        b"POST %s HTTP/1.1\r\nhost: r\r\ntransfer-encoding: chunked\r\n\r\n0\r\ncontent-length: 5\r\n\r\n",
        400,
    ),
    "tunnel": (b"CONNECT engine:8000 HTTP/1.1\r\nhost: %s\r\n\r\n", 400),
}


@pytest.mark.parametrize(("message", "status"), REFUSED.values(), ids=REFUSED.keys())
def test_requests_that_two_servers_could_read_differently_are_refused(message: bytes, status: int):
    reader = read([message % CHAT.encode()])
    assert reader.ready[0].refusal is not None
    assert reader.ready[0].refusal.status == status


ENDLESS = {
    "head": (b"POST /v1/completions HTTP/1.1\r\nx: ", b"y" * 1000),
    "target": (b"POST /", b"y" * 1000),
    "trailers": (CHUNKED[: CHUNKED.index(b"x-trailer")] + b"x: ", b"y" * 1000),
    "chunk extension": (CHUNKED[: CHUNKED.index(b"3;")] + b"3;x", b"y" * 1000),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_ends_is_refused_at_64_kib(start: bytes, more: bytes):
    reader = read([start])
    fed = 0
    while not reader.ended:
        reader.feed(more, 0.0)
        fed += len(more)
        assert fed < 70_000
    assert reader.ready[-1].refusal is not None
    assert reader.ready[-1].refusal.reason is Reason.HEADERS_TOO_LARGE


def test_a_declared_body_over_the_limit_is_refused_before_it_comes():
    reader = read([b"POST /v1/completions HTTP/1.1\r\ncontent-length: 2000000\r\n\r\n"])
    assert [one.refusal.reason for one in reader.ready if one.refusal] == [Reason.BODY_TOO_LARGE]


def test_chunks_over_the_limit_are_refused_as_soon_as_they_are():
    chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
    reader = read([CHUNKED[: CHUNKED.index(b"3;")]], limit=4096)
    for number in range(1, 6):
        reader.feed(chunk, 0.0)
        assert reader.ended == (number == 5)
    assert reader.ready[0].refusal is not None
    assert reader.ready[0].refusal.status == 413
    assert reader.ready[0].body == b""


def test_a_body_in_one_byte_chunks_is_read():
    head = CHUNKED[: CHUNKED.index(b"3;")]
    reader = read([head, *[b"1\r\nx\r\n"] * 20_000, b"0\r\n\r\n"])
    assert reader.ready[0].body_bytes == 20_000


def test_the_small_body_of_a_refused_request_is_dropped_and_the_connection_stays():
    reader = read([UNKNOWN + GET])
    assert [one.refusal.status if one.refusal else 200 for one in reader.ready] == [404, 200]
    assert not reader.ended


def test_endless_pipelining_ends():
    reader = read([GET * 1000])
    assert len(reader.ready) == 32
    assert reader.ended


def test_a_client_that_expects_to_be_told_is_told_to_go_on():
    reader = read([b"POST /v1/completions HTTP/1.1\r\nhost: r\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"])
    assert reader.continue_due
    reader.feed(b"hi", 0.0)
    assert not reader.continue_due


def test_a_client_that_would_be_told_to_go_on_gets_the_refusal_instead():
    reader = read([b"POST /sleep HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"])
    assert not reader.continue_due
    assert reader.ready[0].refusal is not None


@pytest.mark.interpreted
def test_a_fault_of_the_router_itself_is_not_called_the_clients(monkeypatch: pytest.MonkeyPatch):
    def fault(*arguments: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("workslice_router.request_reader.check_head", fault)
    reader = read([GET])
    assert [one.refusal.status for one in reader.ready if one.refusal] == [500]
