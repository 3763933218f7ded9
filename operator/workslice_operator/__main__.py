"""`python -m workslice_operator`: ready to be told to stop before the slow imports; process.py puts the parts together.

With `render` or `plan` as the first word it shows what the operator would apply instead, and writes nothing.
"""

import signal
import sys


def main() -> int:
    """Run the operator, or the command that the first argument names."""
    if sys.argv[1:2] in (["render"], ["plan"]):
        from workslice_operator.command_line import main as show

        return show(sys.argv[1:])
    # Process 1 of a container ignores SIGTERM until it has a handler, so a pod deleted at once would wait out its grace period.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    from workslice_operator.process import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
