"""Runs programs of the machine; a failure carries the program's last words."""

import subprocess
from collections.abc import Mapping, Sequence

from workslice_cluster.cluster_error import ClusterError

LAST_LINES = 20


def last_lines(text: str, count: int = LAST_LINES) -> str:
    """Return the last lines of a text, indented for display under a message."""
    lines = text.rstrip().splitlines()[-count:]
    return "\n".join(f"    {line}" for line in lines) or "    (no output)"


def run(
    argv: Sequence[object],
    *,
    failure: str,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> str:
    """Run a program to its end and return what it printed on standard output.

    `timeout` is in seconds. Raises ClusterError that begins with `failure` when the program is missing, fails or is too slow.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, env=environment, timeout=timeout, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ClusterError(f"{failure}: the program {words[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{failure}: {' '.join(words)} took longer than {timeout:.0f} s") from error
    if done.returncode != 0:
        said = last_lines(done.stderr or done.stdout)
        raise ClusterError(f"{failure}: {' '.join(words)} ended with status {done.returncode}\n{said}")
    return done.stdout
