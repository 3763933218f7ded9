"""A router is reached through `kubectl port-forward` where its address is not: one port, whichever pod is behind it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

sys.path.insert(0, str(repository()))

from demo.cluster_client import Cluster
from demo.port_forward import forwarded_port
from demo.waiting import NotYet, wait_until

KUBECTL = """#!/bin/sh
cd "$(dirname "$0")"
case "$*" in
  *port-forward*)
    echo "$@" >>calls
    echo $$ >pid
    test -e broken && { echo "error: forbidden" >&2; exit 1; }
    echo "Forwarding from 127.0.0.1:34567 -> 8000"
    exec sleep 60 ;;
  *) cat pods.json ;;
esac
"""


class Kubectl:
    """A kubectl that forwards nothing and shows the pods that a test gives it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "kubectl"
        program.write_text(KUBECTL)
        program.chmod(0o755)
        self.cluster = Cluster(folder / "kubeconfig", program, Path("/none"))

    def show(self, **ready: str) -> None:
        """Pods by name, each with the status of its condition Ready, or `leaving`."""
        pods = [
            {
                "metadata": {"name": name} | ({"deletionTimestamp": "now"} if status == "leaving" else {}),
                "status": {"conditions": [{"type": "Ready", "status": "True" if status == "leaving" else status}]},
            }
            for name, status in ready.items()
        ]
        (self.folder / "pods.json").write_text(json.dumps({"items": pods}))

    def forwards(self) -> list[list[str]]:
        """Pod and ports of each port-forward that was started."""
        return [line.split()[2:4] for line in (self.folder / "calls").read_text().splitlines()]

    def port(self) -> int:
        return forwarded_port(self.cluster, "system", "app=router", 8000)


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path)


def test_a_ready_pod_is_forwarded_to_once(kubectl: Kubectl) -> None:
    kubectl.show(starting="False", good="True", old="leaving")
    assert [kubectl.port(), kubectl.port()] == [34567, 34567]
    assert kubectl.forwards() == [["pod/good", ":8000"]]


def test_when_its_pod_leaves_the_same_port_leads_to_another(kubectl: Kubectl) -> None:
    kubectl.show(first="True")
    kubectl.port()
    kubectl.show(first="leaving", second="True")
    assert kubectl.port() == 34567
    assert kubectl.forwards() == [["pod/first", ":8000"], ["pod/second", "34567:8000"]]


def test_a_forward_that_does_not_start_says_why_and_what_else_there_is(kubectl: Kubectl) -> None:
    kubectl.show(good="True")
    (kubectl.folder / "broken").touch()
    with pytest.raises(ClusterError, match=r"error: forbidden(.|\n)*WORKSLICE_ENDPOINT"):
        kubectl.port()


FORWARDS_UNTIL_SIGTERM = """
import sys, time
from pathlib import Path
from demo.cluster_client import Cluster
from demo.port_forward import end_forwards_on_termination, forwarded_port
end_forwards_on_termination()
folder = Path(sys.argv[1])
print(forwarded_port(Cluster(folder / "kubeconfig", folder / "kubectl", Path("/none")), "system", "app=router", 8000), flush=True)
time.sleep(60)
"""


def test_a_process_that_is_terminated_leaves_no_forward_behind(kubectl: Kubectl) -> None:
    kubectl.show(good="True")
    words = [sys.executable, "-c", FORWARDS_UNTIL_SIGTERM, str(kubectl.folder)]
    with subprocess.Popen(words, cwd=repository(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "34567\n"
        forward = int((kubectl.folder / "pid").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 128 + signal.SIGTERM

    def gone() -> None:
        try:
            os.kill(forward, 0)
        except ProcessLookupError:
            return
        raise NotYet(f"process {forward} lives")

    wait_until("the forward to end", gone, seconds=5, every=0.1)
