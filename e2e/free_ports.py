"""Ports for servers that must come back on the same one after they were killed."""

import random
import socket

_FIRST, _LAST = 18_000, 32_000
"""Below those that Linux gives to outgoing connections, one of which could otherwise take a port while its server is down."""
_given: set[int] = set()


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens; no port is given twice."""
    while True:
        port = random.randrange(_FIRST, _LAST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port
