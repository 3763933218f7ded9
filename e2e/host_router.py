"""A router as a process of the host, which follows an API, and requests that wait in it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from demo.waiting import NotYet, wait_until

from bare_api import HOST, SYSTEM, BareApi
from faulty_api import Answer, Asked
from free_ports import free_port

_START_SECONDS = 60
_LISTED = f"/apis/discovery.k8s.io/v1/namespaces/{SYSTEM}/endpointslices"


@dataclass
class HostRouter:
    """One router, started again and again on the same ports."""

    kubeconfig: Path
    log: Path
    port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it; returns when it knows the pools."""
        words = ["--host", HOST, "--port", str(self.port), "--admin-port", str(self.admin_port)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workslice_router", *words],
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_until("the router to be ready", self._ready, seconds=_START_SECONDS, every=0.1)

    def kill(self) -> None:
        """End it as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Within this context it does not run."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def listed(self, asked: Asked) -> Answer | None:
        """The API's answer to one who asks for routers: a fault of a proxy, since the API itself takes no address of the host."""
        if asked.path != _LISTED:
            return None
        slice_ = {
            "metadata": {"name": "router", "namespace": SYSTEM},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [HOST], "conditions": {"ready": True}}],
            "ports": [{"name": "admin", "port": self.admin_port}],
        }
        kind = {"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1", "metadata": {"resourceVersion": "1"}}
        return Answer(200, json.dumps({**kind, "items": [slice_]}).encode(), {"Content-Type": "application/json"})

    @contextmanager
    def request(self, model: str) -> Iterator[float]:
        """Within this context a request for the model is there; gives when it was sent, by time.monotonic()."""
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: router\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((HOST, self.port), timeout=30) as connection:
            sent_at = time.monotonic()
            connection.sendall((head + body).encode())
            yield sent_at

    def _ready(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        try:
            answer = httpx.get(f"http://{HOST}:{self.admin_port}/readyz", timeout=5, trust_env=False)
        except httpx.HTTPError as error:
            raise NotYet(repr(error)) from error
        if not answer.is_success:
            raise NotYet(answer.text)


@contextmanager
def host_router(api: BareApi, folder: Path) -> Iterator[HostRouter]:
    """A router that follows the API as its administrator."""
    router = HostRouter(api.cluster.kubeconfig, folder / "router.log")
    try:
        router.start()
        yield router
    finally:
        router.kill()
