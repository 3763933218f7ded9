"""Serves one engine until its end: through a drain at SIGTERM, or out when the engine has died."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Final

import uvicorn

from engine_sim.application import application
from engine_sim.engine import Engine
from engine_sim.faulty_connection import protocol
from engine_sim.metrics import EngineMetrics
from engine_sim.settings import Settings

_KEEP_ALIVE_SECONDS: Final = 5
"""After which vLLM closes an idle connection."""
_LOOKS_AFTER_DEATH_SECONDS: Final = 2.5
"""How long a server outlives its engine when no request finds it dead; vLLM looks every 5 s, so half of that on average."""


class _Server(uvicorn.Server):
    """Leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or the engine's death."""
    engine = Engine(settings, EngineMetrics(settings))
    config = uvicorn.Config(
        application(engine, settings),
        host=settings.host,
        port=settings.port,
        http=protocol(lambda: engine.faults),
        ws="none",
        lifespan="off",
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        access_log=settings.logs_requests,
    )
    server = _Server(config)
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, terminated.set)
    async with asyncio.TaskGroup() as tasks:
        helpers = [
            tasks.create_task(engine.run()),
            tasks.create_task(_end_after_drain(terminated, engine, server, settings.shutdown_timeout)),
        ]
        if not settings.stays_after_core_death:
            helpers.append(tasks.create_task(_end_after_death(engine, server)))
        await server.serve()
        for helper in helpers:
            helper.cancel()


async def _end_after_drain(terminated: asyncio.Event, engine: Engine, server: uvicorn.Server, patience: float) -> None:
    await terminated.wait()
    await engine.drain(patience)
    # Connections whose answer was not done now hang until their client goes, as they do in vLLM.
    server.should_exit = True


async def _end_after_death(engine: Engine, server: uvicorn.Server) -> None:
    await engine.died(_LOOKS_AFTER_DEATH_SECONDS)
    server.should_exit = True
