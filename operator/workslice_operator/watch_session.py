"""The HTTP session of kopf's watches, which makes up for two things.

kopf tells of no object that went while a watch was broken: the session tells when a list is read once more. And kopf ends the process
when the API ends a watch with an error that is not 410: the session lets the watch end as if its connection had been lost.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import aiohttp

_PAUSE_SECONDS: Final = 1.0
"""After an error, before kopf goes on with the same watch, which it does at once."""
_ERROR: Final = re.compile(rb'^\{"type":"ERROR",.*$', re.MULTILINE)
_GONE: Final = re.compile(rb'"code":410\b')


def watch_session(
    tls: ssl.SSLContext, headers: Mapping[str, str], listed: set[str], listed_again: Callable[[], None]
) -> aiohttp.ClientSession:
    """A session as kopf would make it. `listed` holds the paths of lists that were answered; when one of them is answered again,
    `listed_again` is called.
    """

    async def look_at(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        response = await ask(request)
        query = request.url.query
        if request.method != "GET" or response.status != 200:
            return response
        if query.get("watch") == "true":
            response.content = _UntilError(response.content)  # type: ignore[assignment]
        elif "limit" in query and "continue" not in query:  # every list has a limit; these are its first pages
            if request.url.path in listed:
                listed_again()
            listed.add(request.url.path)
        return response

    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    return aiohttp.ClientSession(connector=connector, headers=headers, middlewares=(look_at,))


class _UntilError:
    """The body of a watch's answer, as far as kopf can do something with it."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """What kopf reads: an error is the last thing that the API says, in one piece, whatever came before it."""
        async for chunk in self._content.iter_chunked(size):
            error = _ERROR.search(chunk)
            if error is None or _GONE.search(error[0]):
                yield chunk
                continue
            yield chunk[: error.start()]
            await asyncio.sleep(_PAUSE_SECONDS)
            return
