"""A response as it comes over the wire: its head, and its body in the pieces of the chunked transfer coding."""

import json
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class RawResponse:
    """Header names are in lower case."""

    status_line: str
    headers: dict[str, str]
    chunks: list[bytes]


def post_raw(url: str, path: str, body: dict[str, Any]) -> RawResponse:
    """Send a request whose response is chunked, and read it to its end."""
    address = urlsplit(url)
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    with socket.create_connection((address.hostname or "", address.port or 80), timeout=30) as connection:
        connection.sendall(head.encode() + content)
        stream = connection.makefile("rb")
        status_line = stream.readline().decode().strip()
        headers = {}
        while line := stream.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        chunks = []
        while size := int(stream.readline(), 16):
            chunks.append(stream.read(size))
            stream.readline()
        stream.readline()
    return RawResponse(status_line, headers, chunks)
