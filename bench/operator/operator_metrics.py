"""The operator's own metrics: counters now, and quantiles of what happened between two looks."""

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_PREFIX = "workslice_operator_"


@dataclass(frozen=True)
class Look:
    samples: Mapping[tuple[str, str], float]
    """(name without prefix, le or kind or empty) → value; other labels are added up."""

    def value(self, name: str, label: str = "") -> float:
        return self.samples.get((name, label), 0.0)

    def total(self, name: str) -> float:
        return sum(value for (one, _), value in self.samples.items() if one == name)


def look(url: str) -> Look:
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines(keepends=True)
    text = "".join(line for line in lines if f"{_PREFIX}workqueue_" in line)  # with many pools the rest is long
    samples: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name.removeprefix(_PREFIX), sample.labels.get("le") or sample.labels.get("kind") or ""
            samples[key] = samples.get(key, 0.0) + sample.value
    return Look(samples)


def quantile(before: Look, after: Look, histogram: str, share: float) -> float:
    """Upper bound of the bucket that the quantile falls into, or a place within it by linear interpolation; 0 when nothing was seen."""
    name = f"{histogram}_bucket"
    bounds = sorted((float(le), le) for one, le in after.samples if one == name)
    counts = [(bound, after.value(name, le) - before.value(name, le)) for bound, le in bounds]
    total = counts[-1][1] if counts else 0.0
    lower, below = 0.0, 0.0
    for bound, count in counts:
        if total and count >= share * total:
            within = (share * total - below) / max(1.0, count - below)
            return lower if bound == float("inf") else lower + (bound - lower) * within
        lower, below = bound, count
    return 0.0
