"""What the person at the terminal sees while a command works: steps with the time since the command began."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_began = time.monotonic()


def say(text: str) -> None:
    """Print one line, prefixed by the seconds since the command began."""
    print(f"[{time.monotonic() - _began:6.1f}s] {text}", flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a step and, when it succeeded, say how long it took."""
    say(title)
    began = time.monotonic()
    yield
    took = time.monotonic() - began
    if took >= 1:
        say(f"{title}: done in {took:.1f} s")
