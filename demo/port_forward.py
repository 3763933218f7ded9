"""Reaches a router from this machine where ClusterIPs cannot be reached: `kubectl port-forward`, kept alive."""

import atexit
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from demo.cluster_client import Cluster
from demo.waiting import NotYet, wait_until
from workslice_cluster.cluster_error import ClusterError

_LISTENS = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


@dataclass(frozen=True)
class _Forward:
    pod: str
    port: int
    process: "subprocess.Popen[str]"


_forwards: dict[Path, _Forward] = {}
_lock = threading.Lock()


def forwarded_port(cluster: Cluster, namespace: str, selector: str, port: int) -> int:
    """Return the port of this machine that leads to `port` of a ready pod; the same one every time.

    A forward follows one pod: when that is gone or leaving, the next call leads to another one. Connections through the old one
    are lost, so tests that replace routers want a WORKSLICE_ENDPOINT. Raises ClusterError when there is no ready pod for 60 s.
    """
    with _lock:
        known = _forwards.get(cluster.kubeconfig)
        ready = wait_until(f"a ready pod ({selector})", lambda: _ready_pods(cluster, namespace, selector), seconds=60)
        if known and known.pod in ready and known.process.poll() is None:
            return known.port
        if known:
            _end(known.process)
        made = _start(cluster, namespace, ready[0], f"{known.port if known else ''}:{port}")
        _forwards[cluster.kubeconfig] = made
        return made.port


def end_forwards_on_termination() -> None:
    """Let SIGTERM end this process as sys.exit(143) does: its forwards end with it, as they do for every other exit."""

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the way out is not cut short by a second one
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _ready_pods(cluster: Cluster, namespace: str, selector: str) -> list[str]:
    names = []
    for pod in cluster.objects("pods", namespace, selector):
        conditions = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions", [])}
        if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            names.append(str(pod["metadata"]["name"]))
    if not names:
        raise NotYet("no pod is ready")
    return names


def _start(cluster: Cluster, namespace: str, pod: str, ports: str) -> _Forward:
    argv = [
        *(str(cluster.kubectl_program), f"--kubeconfig={cluster.kubeconfig}", "port-forward", f"pod/{pod}", ports),
        *("-n", namespace, "--address=127.0.0.1"),
    ]
    # A file, not a pipe: kubectl writes a line for each connection, and nobody reads on.
    with tempfile.TemporaryFile("a+") as said:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, text=True)
        atexit.register(_end, process)
        try:
            port = wait_until("kubectl port-forward to listen", lambda: _port_in(said, process), seconds=20, every=0.1)
        except ClusterError:
            _end(process)
            raise
    return _Forward(pod, port, process)


def _port_in(said: IO[str], process: "subprocess.Popen[str]") -> int:
    said.seek(0)
    text = said.read().strip()
    if found := _LISTENS.search(text):
        return int(found[1])
    if process.poll() is not None:
        raise ClusterError(
            f"kubectl port-forward ended: {text}\nName a URL that reaches the routers in WORKSLICE_ENDPOINT"
        )
    raise NotYet(text or "it says nothing")


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
