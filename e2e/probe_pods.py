"""Small pods that listen on a port or call others, for tests of who reaches whom."""

from typing import Any

from demo.cluster_client import Cluster
from demo.waiting import NotYet, wait_until

LISTENING_PORT = 8000
_CALL = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
except OSError as error:
    print(f"closed: {error}")
else:
    print("open")
"""


def listener(name: str, namespace: str, image: str, **more: Any) -> dict[str, Any]:
    """A pod that serves HTTP on LISTENING_PORT and is ready when the kubelet reaches it; see `_pod` for the rest."""
    container = {
        "command": ["python3", "-m", "http.server", str(LISTENING_PORT), "--directory", "/tmp"],
        "readinessProbe": {"httpGet": {"path": "/", "port": LISTENING_PORT}, "periodSeconds": 1},
    }
    return _pod(name, namespace, image, container, **more)


def caller(name: str, namespace: str, image: str, **more: Any) -> dict[str, Any]:
    """A pod that does nothing until a test makes it call; see `_pod` for the rest."""
    return _pod(name, namespace, image, {"command": ["sleep", "infinity"]}, **more)


def _pod(
    name: str,
    namespace: str,
    image: str,
    container: dict[str, Any],
    *,
    labels: dict[str, str] | None = None,
    node: str | None = None,
) -> dict[str, Any]:
    """A pod of an image that has Python 3, with labels and, when named, on one node; the strictest Pod Security allows it."""
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "probe", "image": image, "securityContext": security, **container}],
        **({"nodeName": node} if node else {}),
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def address(cluster: Cluster, namespace: str, pod: str) -> str:
    """Return a pod's address once it is ready."""
    cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "-n", namespace, "--timeout=50s")
    return str(cluster.get("pod", pod, namespace)["status"]["podIP"])


def call(cluster: Cluster, namespace: str, pod: str, host: str, port: int) -> str:
    """Let a pod (any with Python 3 in it) open a TCP connection; return `open`, or `closed: ` and the error within 3 s."""
    return cluster.kubectl("exec", pod, "-n", namespace, "--", "python3", "-c", _CALL, host, str(port)).strip()


def wait_for_call(cluster: Cluster, namespace: str, pod: str, host: str, port: int, outcome: str) -> None:
    """Wait until the pod's calls end as wanted (`open` or `closed`): policies take effect within a second or two."""

    def look() -> None:
        seen = call(cluster, namespace, pod, host, port)
        if not seen.startswith(outcome):
            raise NotYet(seen)

    wait_until(f"{host}:{port} to be {outcome} to {namespace}/{pod}", look, seconds=20, every=0.3)
