"""Probes that fit vLLM: nothing listens until the engine is ready, then /health answers 200 until the process ends."""

import math
from typing import Any, Final

from workslice_api.engine_spec import EngineSpec
from workslice_api.names import ENGINE_PORT_NAME
from workslice_api.quantity import duration_seconds
from workslice_operator.render.warm_up import warm_up_probe

_STARTUP_PERIOD: Final = 2
_KILL_SECONDS: Final = 30
"""Grace for an engine that a probe gave up: it has nothing to drain, so it need not wait for the drain timeout."""


def engine_probes(engine: EngineSpec) -> dict[str, Any]:
    """The three probes of the engine container."""
    startup_timeout = duration_seconds(engine.startup_timeout)
    startup = {
        **_health(timeout=5),
        "periodSeconds": _STARTUP_PERIOD,
        "failureThreshold": max(1, math.ceil(startup_timeout / _STARTUP_PERIOD)),
    }
    if engine.warmup is not None:
        startup = warm_up_probe(engine.warmup, startup_timeout)
    return {
        "startupProbe": {**startup, "terminationGracePeriodSeconds": _KILL_SECONDS},
        # A dead engine ends its container at once. The probe only has to tell a hung one, and a busy one must not look hung.
        "readinessProbe": {**_health(timeout=5), "periodSeconds": 5, "failureThreshold": 6},
        "livenessProbe": {
            **_health(timeout=10),
            "periodSeconds": 10,
            "failureThreshold": 6,
            "terminationGracePeriodSeconds": _KILL_SECONDS,
        },
    }


def _health(timeout: int) -> dict[str, Any]:
    return {"httpGet": {"path": "/health", "port": ENGINE_PORT_NAME}, "timeoutSeconds": timeout}
