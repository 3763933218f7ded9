"""The operator and one router as processes of this machine, with the rights that the chart gives them and no others."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from api import Api
from demo.install_manifests import install_manifests
from demo.installation import NAMESPACE, RELEASE

ADMIN_SERVICE = f"{RELEASE}-router-admin"
_KINDS = {
    "Namespace": "/api/v1/namespaces",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
}
_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 30


@dataclass
class Running:
    process: subprocess.Popen[bytes]
    log: Path

    def cpu_seconds(self) -> float:
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self) -> tuple[float, float]:
        """Resident now and at most, in MB."""
        lines = dict(line.split(":", 1) for line in (self._proc / "status").read_text().splitlines() if ":" in line)
        now, most = (int(lines[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))
        return now, most

    @property
    def _proc(self) -> Path:
        if self.process.poll() is not None:
            raise SystemExit(f"it ended with status {self.process.returncode}: see {self.log}")
        return Path("/proc") / str(self.process.pid)


async def install(api: Api) -> None:
    """CRDs, accounts and rights of the chart."""
    for manifest in yaml.safe_load_all(install_manifests()):
        path = _KINDS.get(manifest["kind"])
        if path:
            await api.apply(f"{path}/{manifest['metadata']['name']}", manifest)


async def kubeconfig(api: Api, component: str, administrators: str, folder: Path) -> Path:
    """One for the service account of a component, after the administrator's."""
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{RELEASE}-{component}"
    token = (await api.request("POST", f"{account}/token", {"spec": {"expirationSeconds": 7200}}))["status"]["token"]
    document = yaml.safe_load(administrators)
    document["users"] = [{"name": one["name"], "user": {"token": token}} for one in document["users"]]
    file = folder / f"{component}.kubeconfig"
    file.write_text(json.dumps(document))
    return file


async def announce_router(api: Api, address: str, port: int) -> None:
    """What lists the routers' admin ports: an EndpointSlice without a Service before it."""
    manifest: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "router", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": ADMIN_SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "admin", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True, "serving": True}}],
    }
    await api.apply(f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/router", manifest)


@contextmanager
def running(name: str, folder: Path, arguments: list[str], **environment: str) -> Iterator[Running]:
    """A Python process until the context ends."""
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        )
    try:
        yield Running(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(address: str, port: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"nothing listens at {address}:{port} after {seconds:.0f} s") from None
            time.sleep(0.05)
