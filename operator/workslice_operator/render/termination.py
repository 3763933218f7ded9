"""How an engine pod ends, all from the pool's one `drain.timeout`."""

import math
from dataclasses import dataclass
from typing import Final

from workslice_api.quantity import duration_seconds
from workslice_operator.engine_version import knows_flag

ROUTERS_NOTICE_SECONDS: Final = 5
"""How long a replica goes on as if nothing happened, so that routers see that it leaves before it refuses requests."""
EXIT_SECONDS: Final = 20
"""What vLLM needs to exit after its last request: 7-9 s measured, with reserve."""


@dataclass(frozen=True)
class Termination:
    """Whole seconds of each phase."""

    pre_stop: int
    shutdown_timeout: int
    """Never 0: with 0 vLLM kills its engine at SIGTERM and leaves clients hanging without an answer."""
    grace_period: int


def termination(drain_timeout: str, engine_version: str) -> Termination:
    """Phases for a drain timeout such as 120s."""
    drain = max(1, math.ceil(duration_seconds(drain_timeout)))
    # An engine that cannot drain by itself must get its SIGTERM only when the requests are done.
    pre_stop = ROUTERS_NOTICE_SECONDS + (0 if knows_flag(engine_version, "--shutdown-timeout") else drain)
    return Termination(pre_stop, drain, ROUTERS_NOTICE_SECONDS + drain + EXIT_SECONDS)
