"""The startup probe of an engine that is warmed up: one that waits until the engine listens, and then sends it requests.

It does not fail while the engine starts: each failure is an Event of the pod, of which the kubelet writes few, and they are needed for what
a warm-up says when it fails.
"""

import json
import math
from importlib.resources import files
from typing import Any, Final

from workslice_api.engine_spec import Warmup, WarmupPrefix
from workslice_api.names import ENGINE_PORT

_PROGRAM: Final = (files("workslice_operator") / "warm_up_program.py").read_text()
_COMMAND: Final = """\
command -v python3 >/dev/null || { echo "warm-up: the engine's image has no python3"; exit 1; }
exec python3 -I -S -c "$@"
"""
# Without a shell an image that has no python3 would leave the pod unready for ever: the kubelet disregards probes that cannot be run.
_TRIES: Final = 3
_SECONDS_BETWEEN: Final = 10
_PROBE_SECONDS: Final = 5
"""Beyond the time in which the program gives up by itself."""


def warm_up_probe(warmup: Warmup, startup_timeout: float, port: int = ENGINE_PORT) -> dict[str, Any]:
    """The handler and the limits of the probe; `startup_timeout` in seconds."""
    requests = [part for path, body in _requests(warmup) for part in (path, _not_expanded(json.dumps(body)))]
    command = [
        "/bin/sh",
        "-c",
        _COMMAND,
        "warm-up",
        _not_expanded(_PROGRAM),
        str(port),
        f"{startup_timeout:g}",
        *requests,
    ]
    return {
        "exec": {"command": command},
        "timeoutSeconds": math.ceil(startup_timeout) + _PROBE_SECONDS,
        "periodSeconds": _SECONDS_BETWEEN,
        "failureThreshold": _TRIES,
    }


def _requests(warmup: Warmup) -> list[tuple[str, dict[str, Any]]]:
    """Path and body of each. Without a model's name: it is the one that the engine serves."""
    # Two tokens: the first comes of the prompt, only the second takes the way that all others of an answer take.
    first = ("/v1/completions", {"prompt": "Hello", "max_tokens": 2, "temperature": 0})
    return [first, *map(_prefix, warmup.prefixes)]


def _prefix(prefix: WarmupPrefix) -> tuple[str, dict[str, Any]]:
    if prefix.kind == "Prompt":
        return "/v1/completions", {"prompt": prefix.text, "max_tokens": 1}
    messages = [{"role": "system", "content": prefix.text}, {"role": "user", "content": "Hello"}]
    return "/v1/chat/completions", {"messages": messages, "max_tokens": 1}


def _not_expanded(text: str) -> str:
    # The kubelet replaces $(NAME) in the commands of probes by the container's variables, and $$ by $.
    return text.replace("$", "$$")
