"""`python -m workslice_router`: ready to be told to stop before the slow imports; process.py puts the parts together."""

import signal
import sys


def main() -> None:
    """Run the router."""
    # Process 1 of a container ignores SIGTERM until it has a handler, so a pod deleted at once would wait out its grace period.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from workslice_router.process import main as run

    run()


if __name__ == "__main__":
    main()
