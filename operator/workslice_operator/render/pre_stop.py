"""What the engine's container does when the pod is told to end, before vLLM gets its SIGTERM."""

from typing import Any, Final

from workslice_api.names import ENGINE_PORT

# Nothing listens until the engine is ready, so an engine that starts is one that does not listen. It is only believed when the table of
# sockets can be read: whatever else goes wrong here, an engine that serves is left to drain.
_STARTS: Final = """\
listens=' [0-9A-F]*:{port:04X} [0-9A-F]*:0000 0A '
starts() {{ grep -q "$listens" /proc/net/tcp; [ $? -eq 1 ] && ! grep -qs "$listens" /proc/net/tcp6; }}
"""
# vLLM may not hear a SIGTERM while it starts, and process 1 ignores every signal that it has no handler for. So all the others are killed
# again and again: without its core the server ends, and Python's own handler of SIGINT ends its imports. In the background, since the
# container takes the hook with it, which would look like a failure of the hook.
_HOOK: Final = """\
{starts}starts || exec sleep {seconds}
(while sleep 1; starts; do kill -INT 1; kill -KILL -1; done) >/dev/null 2>&1 &
"""


def starts(port: int = ENGINE_PORT) -> str:
    """A shell function `starts`: whether no process of the pod listens on the port."""
    return _STARTS.format(port=port)


def pre_stop(seconds: int, port: int = ENGINE_PORT) -> dict[str, Any]:
    """The hook: a replica that serves goes on for so long as if nothing happened, one that starts ends within seconds."""
    return {"exec": {"command": ["/bin/sh", "-c", _HOOK.format(starts=starts(port), seconds=seconds).strip()]}}
