"""The process: puts the parts together, serves until SIGTERM, leaves in order."""

import asyncio
import contextlib
import gc
import logging
import random
import resource
import signal
import sys
from collections.abc import Sequence
from typing import Final

import uvloop

from workslice_router.admin_server import Lifecycle, start_admin_server
from workslice_router.admission import Admission
from workslice_router.api_keys import ApiKeys
from workslice_router.client_connection import ClientConnection
from workslice_router.data_path import DataPath
from workslice_router.estimate import Estimator
from workslice_router.freed_memory import keep_freed_memory
from workslice_router.gauge_scrape import GaugeScrape
from workslice_router.json_log import configure_json_log
from workslice_router.kubernetes_access import KubernetesConfigError
from workslice_router.metrics import Metrics
from workslice_router.routing_table import RoutingTable
from workslice_router.settings import Settings, parse_arguments
from workslice_router.shutdown import drain
from workslice_router.static_pools import StaticPoolsError, apply_static_pools, load_static_pools

_BACKLOG: Final = 2048
_USAGE_ERROR: Final = 2

log = logging.getLogger("workslice_router")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the router; the process's status is 0 after SIGTERM or SIGINT, 1 on a failure, 2 when the settings cannot work."""
    settings = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    configure_json_log(settings.log_level)
    _raise_open_files_limit()
    keep_freed_memory()
    try:
        status = uvloop.run(run(settings))
    except (StaticPoolsError, KubernetesConfigError) as error:
        print(f"workslice-router: {error}", file=sys.stderr)
        status = _USAGE_ERROR
    except OSError as error:
        print(f"workslice-router: {error}", file=sys.stderr)
        status = 1
    raise SystemExit(status)


async def run(settings: Settings) -> int:
    """Serve until a signal, then drain; returns the exit status.

    Raises:
        StaticPoolsError, KubernetesConfigError: there is no way to know the pools.
        OSError: a port cannot be bound.
    """
    loop = asyncio.get_running_loop()
    table, estimator, metrics, lifecycle = (
        RoutingTable(),
        Estimator(settings.default_output_tokens),
        Metrics(),
        Lifecycle(),
    )
    admission = Admission(
        table,
        estimator,
        metrics,
        loop.time,
        random.random,
    )
    data_path = DataPath(settings, table, admission, estimator, metrics, ApiKeys(settings.api_keys))
    stop: asyncio.Future[signal.Signals | None] = loop.create_future()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, _stop, stop, one)

    discovery: asyncio.Task[None] | None = None
    if settings.pools is not None:
        apply_static_pools(table, load_static_pools(settings.pools))
    else:
        # Here, since it needs an HTTP client: a router with a file of pools takes 9 MB less without.
        from workslice_router.kubernetes_watch import watch_kubernetes

        discovery = loop.create_task(watch_kubernetes(table, settings.model_owners or {}))
        discovery.add_done_callback(lambda _: _stop(stop, None))
    admin = await start_admin_server(
        settings.host,
        settings.admin_port,
        name=settings.name,
        table=table,
        metrics=metrics,
        lifecycle=lifecycle,
        clock=loop.time,
    )
    server = await loop.create_server(
        lambda: ClientConnection(data_path), settings.host, settings.port, backlog=_BACKLOG, reuse_address=True
    )
    sweep = loop.create_task(data_path.sweep_for_ever())
    scrape = GaugeScrape(table, admission, data_path.start_task, loop.time, random.random)
    gauges = loop.create_task(scrape.run())
    port, admin_port = (one.sockets[0].getsockname()[1] for one in (server, admin))
    # What the imports made stays for ever: the collector must not look through it again in the middle of traffic.
    gc.collect()
    gc.freeze()
    log.info("serving", extra={"fields": {"port": port, "adminPort": admin_port, "name": settings.name}})

    number = await stop
    lifecycle.shutting_down = True
    # Interactively nobody else has to hear of it first.
    grace = settings.listener_grace if number is signal.SIGTERM else 0.0
    await drain(data_path, server, grace, settings.drain_timeout)
    sweep.cancel()
    gauges.cancel()
    admin.close()
    if discovery is None:
        return 0
    failed = discovery.done()
    discovery.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await discovery  # raises what ended it, if it ended by itself
    return 1 if failed else 0


def _stop(stop: "asyncio.Future[signal.Signals | None]", number: signal.Signals | None) -> None:
    if not stop.done():
        stop.set_result(number)
    elif number is not None:
        raise SystemExit(1)  # the second signal: now


def _raise_open_files_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
