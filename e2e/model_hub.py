"""A hub of one model, as far as huggingface_hub looks: serves a folder and counts how often each file was fetched.

Runs by itself with Python 3 and nothing else: python3 model_hub.py PORT ID FOLDER [TOKEN]. With a token it wants it from everyone.
"""

import hashlib
import json
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Files are there under every revision; GET /fetched tells the counts."""

    def __init__(self, host: str, port: int, model: str, folder: Path, token: str = "") -> None:
        super().__init__((host, port), _Handler)
        self.model, self.folder, self.token = model, folder, token
        self.fetched: Counter[str] = Counter()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.server, self.path.partition("?")[0]
        if path == "/fetched":
            return self._answer(200, json.dumps(hub.fetched).encode())
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self._answer(401, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": f"{hub.model} is gated"})
        about, files = f"/api/models/{hub.model}", f"/{hub.model}/resolve/"
        if path.startswith(f"{about}/tree/"):
            return self._json([self._entry(one) for one in sorted(hub.folder.iterdir())])
        if path == about or path.startswith(f"{about}/revision/"):
            siblings = [{"rfilename": one.name} for one in sorted(hub.folder.iterdir())]
            return self._json({"id": hub.model, "modelId": hub.model, "sha": COMMIT, "siblings": siblings})
        if path.startswith(files):
            return self._file(path.removeprefix(files).partition("/")[2])
        return self._answer(404, b"", {"X-Error-Code": "RepoNotFound"})

    def _entry(self, file: Path) -> dict[str, Any]:
        return {"type": "file", "path": file.name, "size": file.stat().st_size, "oid": _oid(file.read_bytes())}

    def _file(self, name: str) -> None:
        file = self.server.folder / name
        if not file.is_file():
            return self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        content = file.read_bytes()
        if self.command == "GET":
            self.server.fetched[name] += 1
        return self._answer(200, content, {"ETag": f'"{_oid(content)}"', "X-Repo-Commit": COMMIT})

    def _json(self, document: Any) -> None:
        self._answer(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, content: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


if __name__ == "__main__":
    port, model, folder, *token = sys.argv[1:]
    Hub("", int(port), model, Path(folder), *token).serve_forever()
