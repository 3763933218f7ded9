"""How many requests an engine has, read from its /metrics page. Pure."""

import re
from typing import Final

from workslice_operator.observed import EngineLoad

_SAMPLE: Final = re.compile(
    r"^vllm:num_requests_(running|waiting)(?:\{[^}\n]*\})?[ \t]+([0-9.eE+]+|NaN)(?:[ \t]+-?\d+)?[ \t]*$", re.MULTILINE
)


def engine_load(page: str) -> EngineLoad | None:
    """The sum over the engine's cores; None (unknown) unless both numbers are there and whole."""
    sums = {"running": 0.0, "waiting": 0.0}
    seen = set()
    for name, text in _SAMPLE.findall(page):
        try:
            sums[name] += float(text)
        except ValueError:
            return None
        seen.add(name)
    if seen != sums.keys() or any(total != total or total % 1 for total in sums.values()):
        return None
    return EngineLoad(running=int(sums["running"]), waiting=int(sums["waiting"]))
