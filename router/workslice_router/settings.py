"""What the command line sets, and the limits that are fixed."""

import argparse
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from workslice_api import names

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_HEADERS: Final = 128
MAX_PIPELINED_BYTES: Final = 64 * 1024
"""Held of requests that a client sends before the answer to the one before."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class Settings:
    """One router's settings; times in seconds."""

    pools: Path | None = None
    """Static file of pools; None: from the Kubernetes API."""
    host: str = "0.0.0.0"
    port: int = names.ROUTER_PORT
    admin_port: int = names.ROUTER_ADMIN_PORT
    api_keys: Path | None = None
    model_owners: Mapping[str, str] | None = None
    default_output_tokens: int = 512
    max_body_bytes: int = 32 * 1024 * 1024
    max_held_bytes: int = 384 * 1024 * 1024
    """Of requests that are being read, wait or run, all together; the chart gives a router 1 GiB."""
    drain_timeout: float = 120.0
    idle_timeout: float = 300.0
    name: str = ""
    log_level: str = "info"
    connect_timeout: float = 2.0
    keep_alive_timeout: float = 75.0
    head_timeout: float = 15.0
    body_timeout: float = 60.0
    """For the body of a request; a second more per 64 KiB received."""
    listener_grace: float = 5.0
    """After SIGTERM new requests are still answered for this long: not every client has heard yet that this router goes."""


def parse_arguments(arguments: Sequence[str]) -> Settings:
    """Settings from command-line arguments; a wrong one ends the process with a sentence and status 2."""
    parser = argparse.ArgumentParser(
        prog="workslice-router", description="One OpenAI-compatible endpoint in front of every Workslice pool."
    )
    default = Settings()
    add = parser.add_argument
    add("--pools", type=Path, metavar="FILE", help="YAML file of pools and replicas, for use without Kubernetes")
    add("--host", default=default.host, help="address of both ports (default: %(default)s)")
    add("--port", type=_port, default=default.port, help="OpenAI API (default: %(default)s)")
    add(
        "--admin-port",
        type=_port,
        default=default.admin_port,
        help="/metrics, /healthz, /readyz, /state (default: %(default)s)",
    )
    add("--api-keys", type=Path, metavar="DIR", help="directory of key files; without it everybody may call")
    add(
        "--model-owners",
        type=_owners,
        metavar="JSON",
        help='namespaces that alone may serve a model: {"model": "namespace"}',
    )
    add(
        "--default-output-tokens",
        type=_positive_int,
        default=default.default_output_tokens,
        help="expected answer of a request without max_tokens (default: %(default)s)",
    )
    add(
        "--max-body-bytes",
        type=_positive_int,
        default=default.max_body_bytes,
        help="largest body (default: %(default)s)",
    )
    add(
        "--drain-timeout",
        type=_positive_float,
        default=default.drain_timeout,
        help="seconds that running requests may take after SIGTERM (default: %(default)g)",
    )
    add(
        "--idle-timeout",
        type=_positive_float,
        default=default.idle_timeout,
        help="longest silence of an engine, or of a client that does not read, in seconds (default: %(default)g)",
    )
    add("--name", default=socket.gethostname(), help="name of this router in /state (default: the host name)")
    add("--log-level", choices=LOG_LEVELS, default=default.log_level, help="default: %(default)s")
    return Settings(**vars(parser.parse_args(arguments)))


def _port(text: str) -> int:
    if not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: give a number from 0 (any free port) to 65535")
    return int(text)


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _owners(text: str) -> Mapping[str, str]:
    try:
        owners = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(owners, dict) or not all(isinstance(value, str) for value in owners.values()):
        raise argparse.ArgumentTypeError('must be a JSON object of strings: {"model": "namespace"}')
    return owners
