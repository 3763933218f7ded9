"""One number of a /metrics page, as a test on the host reads it."""

import httpx
from demo.waiting import NotYet


def sample(host: str | None, port: int, series: str) -> float:
    """The value of a series, named with its labels as the page shows them. Raises NotYet when it is not there."""
    try:
        text = httpx.get(f"http://{host}:{port}/metrics", timeout=3, trust_env=False).text
    except httpx.HTTPError as error:
        raise NotYet(f"{host}:{port}: {error}") from error
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if name == series:
            return float(value)
    raise NotYet(f"{host}:{port} shows no {series}")
