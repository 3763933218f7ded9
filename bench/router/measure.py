"""One load on one router: CPU per request or token, and how long the first byte took."""

import json
import subprocess
import sys
from pathlib import Path

from kernel_accounting import cpu_seconds
from loads import Load
from routers import Running

HERE = Path(__file__).resolve().parent


def measure(load: Load, router: Running, core: str, *more: str) -> dict[str, float]:
    """What the load generator saw, and `cpu_us`; a wrong or failed answer ends the run."""
    before = cpu_seconds(router.pid)
    command = [sys.executable, str(HERE / "load.py"), "--port", str(router.port), *load.arguments, *more]
    done = subprocess.run(["taskset", "-c", core, *command], check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{load.name}: the load generator failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    cpu = cpu_seconds(router.pid) - before
    if result["failures"] or result["wrong"] or not result["requests"]:
        raise SystemExit(
            f"{load.name}: of {result['requests']:.0f} requests {result['failures']:.0f} failed, and {result['wrong']:.0f} answers "
            "were not the engine's"
        )
    return {**result, "cpu_us": cpu / result[load.per] * 1e6}
