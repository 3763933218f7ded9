"""Which header lines are remembered."""

import pytest

from workslice_router.forwarded_headers import REQUEST_LINES, RESPONSE_LINES
from workslice_router.header_line import HeaderLines

USUAL = [b"Host: r", b"Accept: */*", b"Content-Length: 16", b"Connection: keep-alive", b"User-Agent: curl/8.5"]
SECRETS = [
    b"Authorization: Bearer s3cret",
    b"Proxy-Authorization: Basic s3cret",
    b"api-key: s3cret",
    b"X-API-Key: s3cret",
    b"X-Goog-Api-Key: s3cret",
    b"apikey: s3cret",
    b"Ocp-Apim-Subscription-Key: s3cret",
    b"X-Auth-Token: s3cret",
    b"X-Forwarded-Access-Token: s3cret",
    b"X-Amz-Security-Token: s3cret",
    b"X-Client-Secret: s3cret",
    b"Cookie: s3cret",
    b"Set-Cookie: s3cret",
    b"x-session-id: s3cret",
    b"X-Amzn-Oidc-Credentials: s3cret",
    b"X-Password: s3cret",
    b"X-Goog-Iap-JWT-Assertion: s3cret",
]


def lines() -> HeaderLines:
    return HeaderLines(frozenset({b"host"}), (b"x-workslice-",))


@pytest.mark.parametrize("line", USUAL)
def test_a_usual_line_is_read_once(line: bytes) -> None:
    known = lines()
    assert known.read(line) is not None
    assert known.read(line) is known.read(line)


@pytest.mark.parametrize("line", SECRETS)
def test_a_line_that_may_carry_a_secret_is_read_and_passed_on_but_not_remembered(line: bytes) -> None:
    known = lines()
    first = known.read(line)
    assert first is not None
    assert first.passed.endswith(b"s3cret\r\n")
    assert known.read(line) is not first


@pytest.mark.parametrize("line", [b"Connection: close", b"Proxy-Connection: close", b"Upgrade: h2c", b"no colon"])
def test_an_unusual_line_is_left_to_the_parser(line: bytes) -> None:
    assert lines().read(line) is None
    assert REQUEST_LINES.read(line) is None
    assert RESPONSE_LINES.read(line) is None
