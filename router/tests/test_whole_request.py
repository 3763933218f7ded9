"""What is read without a parser of HTTP is read exactly as the parser reads it, and is only what clients usually send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workslice_router.api_keys import ApiKeys
from workslice_router.request_reader import RequestReader
from workslice_router.whole_request import whole_request

LIMIT = 10_000
KEYS = ApiKeys(None)
BODY = b'{"model":"tiny"}'
OPENAI = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: router:8080\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
    b"Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 1.99.0\r\n"
    b"X-Stainless-Lang: python\r\nAuthorization: Bearer key\r\nx-request-id: mine\r\nContent-Length: 16\r\n\r\n" + BODY
)
CURL = (
    b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nUser-Agent: curl/8.5\r\nAccept: */*\r\nContent-Length: 16\r\n\r\n"
    + BODY
)
NAMES = st.sampled_from(
    [
        *(b"Host", b"host", b"Content-Length", b"content-length", b"Transfer-Encoding", b"Connection", b"Expect"),
        *(b"Content-Encoding", b"Upgrade", b"X-Request-Id", b"x-workslice-class", b"X-Workslice-Session", b"x-vllm-a"),
        *(
            b"Authorization",
            b"TE",
            b"trailer",
            b"Keep-Alive",
            b"accept",
            b"x",
            b"x y",
            b"x:",
            b"",
            b"\xe9",
            b"\tx",
            b"x\x00",
        ),
    ]
)
VALUES = st.sampled_from(
    [
        *(b"r", b"16", b"016", b"+16", b"16, 16", b"1_6", b"0x10", b"15", b"17", b"chunked", b"identity", b"gzip"),
        *(
            b"close",
            b"keep-alive",
            b"Keep-Alive",
            b"keep-alive, x",
            b"Upgrade",
            b"h2c",
            b"100-continue",
            b"",
            b" ",
            b"a b",
        ),
        *(b"a\tb", b"a ", b"\ta", b"\xe9", b"a\x00", b"a\rb", b"a\nb", b"a\r\n b", b'"quoted"', b"Bearer k"),
    ]
)
FIRST_LINES = st.sampled_from(
    [
        *[b"POST /v1/chat/completions HTTP/1.1"] * 8,
        *(b"POST /v1/embeddings HTTP/1.1", b"POST /v1/chat/completions HTTP/1.0", b"post /v1/completions HTTP/1.1"),
        *(b"POST  /v1/completions HTTP/1.1", b"POST /v1/completions?x HTTP/1.1", b"GET /v1/models HTTP/1.1"),
        *(b"POST /v1/completions HTTP/1.1 ", b"POST /sleep HTTP/1.1", b"\r\nPOST /v1/completions HTTP/1.1"),
    ]
)
HEADERS = st.lists(st.tuples(NAMES, st.sampled_from([b": ", b":", b":\t ", b" : "]), VALUES), max_size=4)


def requests_read(pieces: list[bytes]) -> list[tuple[object, ...]]:
    reader = RequestReader(KEYS, LIMIT)
    for piece in pieces:
        reader.feed(piece, 1.0)
    ready = [
        (
            *(one.method, one.target, one.version, one.headers, one.passed_lines, one.keep_alive, one.received_at),
            *(one.endpoint, one.caller, one.by_name, one.body_bytes, one.body),
        )
        for one in reader.ready
        if one.refusal is None
    ]
    refused = [one.refusal.reason for one in reader.ready if one.refusal is not None]
    return [*ready, (refused, reader.ended, reader.phase)]


@settings(max_examples=500)
@given(
    FIRST_LINES,
    HEADERS,
    HEADERS,
    st.sampled_from([b"\r\n"] * 6 + [b"\n", b"\r"]),
    st.sampled_from([BODY, b"", BODY * 2]),
)
def test_a_request_in_one_piece_is_read_as_the_parser_reads_it(
    first: bytes,
    before: list[tuple[bytes, bytes, bytes]],
    after: list[tuple[bytes, bytes, bytes]],
    end: bytes,
    body: bytes,
) -> None:
    usual = [(b"Host", b": ", b"r"), (b"Content-Length", b": ", b"16")]
    lines = [first, *(b"".join(header) for header in (*before, *usual, *after)), b"", b""]
    message = end.join(lines) + body
    # In two pieces nothing is whole, and the parser reads it all.
    assert requests_read([message]) == requests_read([message[:1], message[1:]])


@pytest.mark.parametrize(
    "line",
    [
        *(b"Transfer-Encoding: chunked", b"transfer-encoding:identity", b"Content-Length: 16", b"content-length: 15"),
        *(
            b"Connection: close",
            b"Connection: keep-alive, host",
            b"Connection: Upgrade",
            b"Proxy-Connection: close",
            b"proxy-connection: keep-alive, close",
            b"Upgrade: h2c",
            b"Host: other",
        ),
        *(
            b"Expect: 100-continue",
            b"Content-Encoding: gzip",
            b"Content-Encoding: identity",
            b"no colon",
            b"X : y",
            b" folded: y",
        ),
        *(
            b"X-Empty:",
            b"X-Space: a ",
            b"X-Byte: \xe9",
            b"X-Null: \x00",
            b"\x00X: y",
            b"X-Line: a\nb",
            b"X-Return: a\rb",
        ),
    ],
)
@pytest.mark.parametrize("place", [b"Host", b"Content-Length"])
def test_each_unusual_header_is_read_as_the_parser_reads_it(line: bytes, place: bytes) -> None:
    message = CURL.replace(place, line + b"\r\n" + place, 1)
    assert requests_read([message]) == requests_read([message[:1], message[1:]])
    assert requests_read([message]) != requests_read([CURL])


@pytest.mark.parametrize("line", [b"Host: r\r\n", b"Content-Length: 16\r\n"])
def test_a_request_without_what_it_needs_is_read_as_the_parser_reads_it(line: bytes) -> None:
    message = CURL.replace(line, b"")
    assert whole_request(message, 1.0, KEYS, LIMIT) is None
    assert requests_read([message]) == requests_read([message[:1], message[1:]])


@given(st.sampled_from([OPENAI, CURL]), st.integers(0, 400), st.binary(max_size=3), st.integers(0, 3))
def test_damage_is_read_as_the_parser_reads_it(message: bytes, at: int, damage: bytes, gone: int) -> None:
    damaged = message[:at] + damage + message[at + gone :]
    assert requests_read([damaged]) == requests_read([damaged[:1], damaged[1:]])


@pytest.mark.parametrize("message", [OPENAI, CURL])
def test_what_clients_send_needs_no_parser(message: bytes) -> None:
    request = whole_request(message, 1.0, KEYS, LIMIT)
    assert request is not None
    assert request.body == BODY


def test_a_key_is_checked_before_the_body_counts(tmp_path: object) -> None:
    assert whole_request(OPENAI, 1.0, ApiKeys(tmp_path), LIMIT) is None  # type: ignore[arg-type]


def test_a_body_over_the_limit_is_left_to_the_parser_which_refuses_it() -> None:
    assert whole_request(CURL, 1.0, KEYS, len(BODY) - 1) is None


def test_a_second_request_behind_it_is_left_to_the_parser() -> None:
    assert whole_request(CURL + CURL, 1.0, KEYS, LIMIT) is None
