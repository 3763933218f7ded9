"""The HTTP session of kopf's watches. It tells when objects are listed once more: kopf tells of none that went while a watch was broken."""

import ssl
from collections.abc import Callable, Mapping
from types import SimpleNamespace

import aiohttp


def watch_session(
    tls: ssl.SSLContext, headers: Mapping[str, str], listed: set[str], listed_again: Callable[[], None]
) -> aiohttp.ClientSession:
    """A session as kopf would make it. `listed` holds the paths of lists that were answered; when one of them is answered again,
    `listed_again` is called.
    """

    async def answered(_: aiohttp.ClientSession, __: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
        query = end.url.query
        # Every list has a limit, and its further pages have `continue`.
        if end.method != "GET" or end.response.status != 200 or "limit" not in query or "continue" in query:
            return
        if end.url.path in listed:
            listed_again()
        listed.add(end.url.path)

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(answered)
    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    return aiohttp.ClientSession(connector=connector, headers=headers, trace_configs=[trace])
