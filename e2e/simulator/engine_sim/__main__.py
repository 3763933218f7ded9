"""Starts a simulated engine; the arguments are those of `vllm serve`."""

import os
import signal
import sys
import time

import uvloop

from engine_sim.command_line import CannotStart, read
from engine_sim.server import serve

_TERMINATED = 128 + signal.SIGTERM


def main() -> None:
    """Serve until the end."""
    # As the first process of a container it would not end by itself before the server takes the signal over.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(_TERMINATED))
    try:
        settings = read(sys.argv[1:], dict(os.environ))
    except CannotStart as error:
        sys.exit(f"ValueError: {error}")
    time.sleep(settings.faults.start_seconds)
    uvloop.run(serve(settings))


if __name__ == "__main__":
    main()
