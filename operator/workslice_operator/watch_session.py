"""The HTTP session of kopf's watches, which makes up for what kopf lacks.

kopf tells of no object that went while a watch was broken: the session tells when a list is read once more. kopf ends the process when
the API ends a watch with an error that is not 410: the session lets the watch end as if its connection had been lost. And kopf copies and
keeps for some seconds all that it hears of: the session hears first, and leaves kopf what tells objects and their specs apart.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import aiohttp
import orjson

from workslice_api import deep_json
from workslice_api.names import GROUP
from workslice_operator.kube_api import Object

_PAUSE_SECONDS: Final = 1.0
"""After an error, before kopf goes on with the same watch, which it does at once."""
_GONE: Final = 410
_LEFT: Final = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
    )
)
"""What kopf hears of an object's metadata."""

Told = Callable[[str, Object, bool], None]
"""Gets the path of a collection and an object of it, whole, from a list or an event; False with one that is gone."""


def watch_session(
    tls: ssl.SSLContext,
    headers: Mapping[str, str],
    listed: set[str],
    listed_again: Callable[[], None],
    told: Told = lambda path, raw, there: None,
) -> aiohttp.ClientSession:
    """A session as kopf would make it. `listed` holds the paths of lists that were answered; when one of them is answered again,
    `listed_again` is called. `told` hears of everything before kopf does.
    """

    async def look_at(request: aiohttp.ClientRequest, ask: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        response = await ask(request)
        query, path = request.url.query, request.url.path
        if request.method != "GET" or response.status != 200:
            return response
        if query.get("watch") == "true":
            response.content = _Events(response.content, path, told)  # type: ignore[assignment]
        elif "limit" in query:  # every list has one
            document = deep_json.loads(await response.read())
            for raw in document.get("items") or []:
                told(path, raw, True)
            document["items"] = [_left(raw) for raw in document.get("items") or []]
            response._body = orjson.dumps(document)
            if "continue" not in query:
                if path in listed:
                    listed_again()
                listed.add(path)
        return response

    connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    return aiohttp.ClientSession(connector=connector, headers=headers, middlewares=(look_at,))


class _Events:
    """The body of a watch's answer, as far as kopf has to hear of it."""

    def __init__(self, content: aiohttp.StreamReader, path: str, told: Told) -> None:
        self._content = content
        self._path = path
        self._told = told
        self._seen: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """What kopf reads."""
        begun = b""
        async for chunk in self._content.iter_chunked(size):
            *lines, begun = (begun + chunk).split(b"\n")
            heard = []
            lost = False
            for event in map(deep_json.loads, filter(None, lines)):
                lost = event["type"] == "ERROR" and event["object"].get("code") != _GONE
                if lost:
                    break
                heard.append(orjson.dumps(self._heard(event["type"], event["object"])) + b"\n")
            if heard:
                yield b"".join(heard)
            if lost:
                await asyncio.sleep(_PAUSE_SECONDS)
                return

    def _heard(self, kind: str, raw: Object) -> Object:
        """The event for kopf. The echo of a status write, or of somebody else's annotation, only moves its bookmark."""
        if kind in ("ERROR", "BOOKMARK"):
            return {"type": kind, "object": raw}
        self._told(self._path, raw, kind != "DELETED")
        metadata = raw["metadata"]
        before = self._seen.pop(metadata["uid"], None)
        if kind != "DELETED":
            ours = {k: v for k, v in (metadata.get("annotations") or {}).items() if k.startswith(f"{GROUP}/")}
            now = self._seen[metadata["uid"]] = metadata.get("generation"), metadata.get("deletionTimestamp"), ours
            if kind == "MODIFIED" and now == before:
                kind = "BOOKMARK"
        return {"type": kind, "object": _left(raw)}


def _left(raw: Object) -> Object:
    """What kopf hears of an object."""
    metadata = {name: value for name, value in raw["metadata"].items() if name in _LEFT}
    return {**{name: raw[name] for name in ("apiVersion", "kind") if name in raw}, "metadata": metadata}
