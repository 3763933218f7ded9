"""How a connection notices that the machine at its other end is gone, although nothing closes it.

A lost node sends no reset: its connections stay open, and what is sent there is repeated for a quarter of an hour. But as long as the
machine lives its kernel acknowledges, even while the process is stopped or computes for minutes. So only what the kernel leaves
unanswered counts here, never how long the process is silent.
"""

import socket
import struct
from typing import Final

PROBE_AFTER_SECONDS: Final = 2
"""Silence after which the kernel asks the other one for a sign of life."""
PROBE_EVERY_SECONDS: Final = 1
PROBES: Final = 3
SILENT_SECONDS: Final = PROBE_AFTER_SECONDS + PROBES * PROBE_EVERY_SECONDS
"""A connection on which nothing is being sent ends this long after the last sign of life."""
_REPEATED: Final = 2
"""How often something must have been sent again in vain: one lost packet proves nothing."""
_RETRANSMITS_AT: Final = 2
_LAST_ACKNOWLEDGEMENT_AT: Final = 56
_INFO_BYTES: Final = 60
"""Of struct tcp_info (linux/tcp.h): a count in one byte, milliseconds in four."""


def end_when_silent(connection: socket.socket) -> None:
    """Let the kernel end the connection when its probes stay unanswered while nothing is being sent."""
    # Not TCP_USER_TIMEOUT, which would do for both cases: it also ends the connection to a live peer that does not read.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)


def unacknowledged_seconds(connection: socket.socket) -> float:
    """How long nothing has been acknowledged while the kernel sends something again and again; 0 when it does not."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    if info[_RETRANSMITS_AT] < _REPEATED:
        return 0.0
    milliseconds: int = struct.unpack_from("=I", info, _LAST_ACKNOWLEDGEMENT_AT)[0]
    return milliseconds / 1000
