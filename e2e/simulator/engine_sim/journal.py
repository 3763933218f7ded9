"""A file with a line for each request that comes and for each that goes, so that a test can ask later what reached which engine."""

import json
import os
import time
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send


class Journal:
    """An ASGI layer around the application. Lines go out at once: they survive SIGKILL."""

    def __init__(self, app: ASGIApp, path: Path) -> None:
        self._app = app
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._note("started", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Headers(scope=scope).get("x-request-id", "")
        self._note("arrived", request)
        try:
            await self._app(scope, receive, send)
        finally:
            self._note("left", request)

    def _note(self, event: str, request: str) -> None:
        line = {"at": time.monotonic(), "event": event, "request": request}
        os.write(self._file, json.dumps(line).encode() + b"\n")
