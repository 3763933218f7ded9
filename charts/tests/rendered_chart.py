"""Renders the chart with the real helm, once for each set of values; with the oldest one that it is held to on demand."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.client_tools import CURRENT, Distribution, ensure

CHART = Path(__file__).parents[1] / "workslice"
RELEASE = "workslice"
NAMESPACE = "workslice-system"


def helm(*arguments: str, of: Distribution = CURRENT) -> subprocess.CompletedProcess[str]:
    """Run helm with no cluster in reach."""
    program = ensure(cache_folder(), of)["helm"]
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"HOME": "/nonexistent", "KUBECONFIG": "/nonexistent", "PATH": "/usr/bin:/bin"},
    )


def render(values: dict[str, Any], *, release: str = RELEASE, of: Distribution = CURRENT) -> list[dict[str, Any]]:
    """Objects of the chart for these values, ordered by kind and name."""
    return _render(json.dumps(values, sort_keys=True), release, of)


@cache
def _render(values: str, release: str, of: Distribution) -> list[dict[str, Any]]:
    settings = [
        part for key, value in json.loads(values).items() for part in ("--set-json", f"{key}={json.dumps(value)}")
    ]
    result = helm("template", release, str(CHART), "--namespace", NAMESPACE, *settings, of=of)
    assert result.returncode == 0, result.stderr
    objects = [one for one in yaml.safe_load_all(result.stdout) if one]
    return sorted(objects, key=lambda one: (one["kind"], one["metadata"]["name"]))


def refusal(values: dict[str, Any], *, of: Distribution = CURRENT) -> str:
    """What helm says when it refuses the values."""
    settings = [part for key, value in values.items() for part in ("--set-json", f"{key}={json.dumps(value)}")]
    result = helm("template", RELEASE, str(CHART), *settings, of=of)
    assert result.returncode != 0, f"helm accepted {values}"
    return result.stderr


def named(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of that kind and name."""
    (found,) = [one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found
