"""Runs in the engine's container, as its startup probe: waits for the engine and sends it the requests of engine.warmup, one by one.

The probe holds the text of this file (render/warm_up.py), so it takes nothing but the standard library of whatever Python 3 is there.
Arguments: the port; the seconds from the start of the container after which it is too late; then the path and the JSON of each request.
"""

import contextlib
import http.client
import json
import os
import sys
import time


def main(port: str, seconds: str, *requests: str) -> str:
    """Send them; returns what went wrong, in one line, else nothing."""
    for path, body in zip(requests[::2], requests[1::2]):  # noqa: B905 since `strict` is newer than some images' Python
        wrong = send(int(port), float(seconds), path, body)
        if wrong:
            return f"{path} {wrong}"
    return ""


def send(port: int, seconds: float, path: str, body: str) -> str:
    """Send one request as soon as the engine listens; returns what went wrong, else nothing."""
    while True:
        left = seconds - container_age()
        if left <= 0:
            return f"was not answered within engine.startupTimeout ({seconds:g} s)"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=left)
        try:
            connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            said = response.read()
        except ConnectionRefusedError:
            time.sleep(0.5)
        except TimeoutError:
            continue
        except (OSError, http.client.HTTPException) as error:
            return f"got no answer: {error!r}"
        else:
            return "" if response.status == 200 else f"answered {response.status}: {in_one_line(said)}"


def in_one_line(said: bytes) -> str:
    """What an answer says that is an error."""
    text = said.decode(errors="replace")
    with contextlib.suppress(ValueError, KeyError, TypeError):  # where it is not in OpenAI's shape: the whole of it
        text = json.loads(text)["error"]["message"]
    return " ".join(str(text).split())[:400]


def container_age() -> float:
    """Seconds since process 1 started; 0 where that cannot be read."""
    try:
        with open("/proc/1/stat") as stat, open("/proc/uptime") as uptime:
            started = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
            return max(0.0, float(uptime.read().split()[0]) - started)
    except (OSError, ValueError, IndexError):
        return 0.0


if __name__ == "__main__":
    failure = main(*sys.argv[1:])
    if failure:
        sys.exit("warm-up: " + failure)
