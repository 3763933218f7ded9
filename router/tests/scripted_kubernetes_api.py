"""A Kubernetes API in one small server: lists and watches of the kinds that routers follow, and the failures of a real one."""

import asyncio
import contextlib
import itertools
import json
from collections import defaultdict
from typing import Any

_KINDS = ("workspacepools", "workspaceprofiles", "endpointslices")


class ScriptedApi:
    """Holds objects by kind and key; a change reaches every open watch. Tests break it on purpose through its fields."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in _KINDS}
        self.version = 100
        self.oldest = 0
        """Watches from before this version are answered 410."""
        self.status: dict[str, int] = {}
        """Answer lists and watches of this kind with this status."""
        self.lists: dict[str, int] = defaultdict(int)
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        """Kind, query and headers of every request."""
        self._events: list[tuple[int, str, bytes]] = []
        self._unfinished: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self._lists = itertools.count()
        self._watches: dict[asyncio.StreamWriter, str] = {}
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """The API goes down: nothing listens, every watch breaks."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()
        await self._server.wait_closed()
        while self._connections:  # noqa: ASYNC110 (their tasks end by themselves)
            await asyncio.sleep(0.001)

    def break_watches(self) -> None:
        for writer in list(self._watches):
            writer.transport.abort()

    def put(self, kind: str, item: dict[str, Any]) -> None:
        key = _key(item)
        type_ = "MODIFIED" if key in self.objects[kind] else "ADDED"
        self.version += 1
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self.objects[kind][key] = item
        self._tell(kind, type_, item)

    def delete(self, kind: str, key: str, silently: bool = False) -> None:
        item = self.objects[kind].pop(key)
        self.version += 1
        if not silently:
            self._tell(
                kind, "DELETED", {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
            )

    def bookmark(self, kind: str) -> None:
        self._tell(kind, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def error(self, kind: str, code: int) -> None:
        self._tell(kind, "ERROR", {"kind": "Status", "code": code, "message": "scripted"})

    def _tell(self, kind: str, type_: str, item: dict[str, Any]) -> None:
        line = json.dumps({"type": type_, "object": item}).encode() + b"\n"
        if type_ not in ("BOOKMARK", "ERROR"):
            self._events.append((self.version, kind, line))
        for writer, watched in list(self._watches.items()):
            if watched == kind:
                for half in (line[: len(line) // 2], line[len(line) // 2 :]):  # watches must not count on whole lines
                    writer.write(b"%x\r\n%b\r\n" % (len(half), half))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                while True:
                    self._answer_head((await reader.readuntil(b"\r\n\r\n")).decode(), writer)
        finally:
            self._watches.pop(writer, None)
            self._connections.discard(writer)
            writer.close()

    def _answer_head(self, head: str, writer: asyncio.StreamWriter) -> None:
        line, *headers = head.strip().split("\r\n")
        path, _, query = line.split(" ")[1].partition("?")
        kind = path.rsplit("/", 1)[1]
        parameters = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        named = {name.lower(): value for name, value in (header.split(": ", 1) for header in headers)}
        self.requests.append((kind, parameters, named))
        if kind in self.status:
            self._answer(writer, self.status[kind], {"kind": "Status", "message": "scripted"})
        elif parameters.get("watch") == "true":
            self._watch(writer, kind, int(parameters["resourceVersion"]))
        else:
            self._list(writer, kind, parameters)

    def _list(self, writer: asyncio.StreamWriter, kind: str, parameters: dict[str, str]) -> None:
        version, items = self._unfinished.pop(parameters.get("continue", ""), (self.version, None))
        if items is None:
            self.lists[kind] += 1
            items = list(self.objects[kind].values())
        page, rest = items[:2], items[2:]  # pages of two: following them is not optional
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if rest:  # the pages of one list show one moment, whatever changes meanwhile
            metadata["continue"] = str(next(self._lists))
            self._unfinished[metadata["continue"]] = (version, rest)
        self._answer(writer, 200, {"metadata": metadata, "items": page})

    def _watch(self, writer: asyncio.StreamWriter, kind: str, since: int) -> None:
        if since < self.oldest:
            self._answer(writer, 410, {"kind": "Status", "code": 410})
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        for version, of, line in self._events:
            if of == kind and version > since:
                writer.write(b"%x\r\n%b\r\n" % (len(line), line))
        self._watches[writer] = kind

    def _answer(self, writer: asyncio.StreamWriter, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
            + body
        )


def _key(item: dict[str, Any]) -> str:
    metadata = item["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])
