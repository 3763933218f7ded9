"""The routers that are compared, and how each is started: on one core of its own, in front of the same two engines."""

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.cache_entry import made_once
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.compiled_router import ensure as compiled
from workslice_cluster.content_hash import content_hash

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKSLICE, INTERPRETED, NGINX, RUST = "workslice", "interpreted", "nginx", "vllm-router"
_START_SECONDS = 60

# Everything that costs time per request is on: two pools whose classes have service levels, so that every request is weighed against
# every replica; lengths and paces are learned; gauges are read; metrics, request ids and placement headers are always on. The engines
# are whole GPUs that take so many at once that nothing ever waits for a place, not even 1,000 streams on engines that seem slow: the
# others have no queue either.
_POOLS = """
profiles:
- name: tiny
  spec:
    model: {{source: /models/tiny}}
    slice: {{profiles: [whole]}}
    memory: {{host: 2Gi}}
    workspace: {{maxTokens: 400000, maxConcurrent: 4096}}
    engine: {{image: engine, version: 0.32.0}}
pools:
- name: short
  spec:
    profileRef: {{name: tiny}}
    model: tiny
    requestClass: {{name: short, maxTotalTokens: 4096, slo: {{timeToFirstToken: 500ms, timePerOutputToken: 50ms}}}}
    queue: {{maxInFlightPerReplica: 4096}}
  replicas: ["127.0.0.1:{engines[0]}"]
- name: long
  spec:
    profileRef: {{name: tiny}}
    model: tiny
    requestClass: {{name: long, maxTotalTokens: 400000, slo: {{timeToFirstToken: 12s, timePerOutputToken: 100ms}}}}
    queue: {{maxInFlightPerReplica: 4096}}
  replicas: ["127.0.0.1:{engines[1]}"]
"""
_NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; keepalive_requests 10000000; client_max_body_size 32m;
  client_body_buffer_size 2m;
  upstream engines {{
    least_conn; server 127.0.0.1:{engines[0]}; server 127.0.0.1:{engines[1]}; keepalive 1024; keepalive_requests 10000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=2048; tcp_nodelay on;
    location / {{
      proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
      proxy_read_timeout 300s;
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Running:
    """A process that answers."""

    port: int
    pid: int


def cores() -> tuple[str, str]:
    """The core of the routers, and those of engines and load."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise SystemExit("this needs two CPUs: one for the router, one for engines and load")
    return str(first), ",".join(map(str, others))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def pinned(name: str, core: str, command: list[str], port: int, **environment: str) -> Iterator[Running]:
    """The process on these cores, from when its port answers."""
    process = subprocess.Popen(
        ["taskset", "-c", core, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    process.kill()
                    said = process.communicate()[1].decode(errors="replace")
                    raise SystemExit(f"{name} did not start:\n{said}") from None
                time.sleep(0.05)
        yield Running(port, process.pid)
    finally:
        process.terminate()  # a killed nginx leaves its worker behind
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def engines(core: str) -> Iterator[list[int]]:
    """Two fake engines in one process; yields their ports."""
    ports = [free_port(), free_port()]
    command = [sys.executable, str(HERE / "fake_engine.py"), "--ports", *map(str, ports)]
    with pinned("the engines", core, command, ports[-1]):
        yield ports


@contextmanager
def router(name: str, engines: list[int], core: str, folder: Path) -> Iterator[Running]:
    """One of the routers."""
    port, admin = free_port(), free_port()
    environment = {}
    if name == NGINX:
        (folder / "nginx.conf").write_text(_NGINX.format(engines=engines, port=port, folder=folder))
        command = [nginx(), "-c", str(folder / "nginx.conf")]
    elif name in (WORKSLICE, INTERPRETED):
        own = [compiled()] if name == WORKSLICE else [ROOT / "router", ROOT / "crds"]
        environment = {"PYTHONPATH": os.pathsep.join(map(str, [*own, sysconfig.get_path("platlib")]))}
        (folder / "pools.yaml").write_text(_POOLS.format(engines=engines))
        command = [router_python(), "-S", "-m", "workslice_router", "--pools", str(folder / "pools.yaml")]
        command += ["--host", "127.0.0.1", "--port", str(port), "--admin-port", str(admin), "--log-level", "warning"]
    else:
        packages = vllm_router()
        environment = {"PYTHONPATH": str(packages), "TOKIO_WORKER_THREADS": "1"}
        command = [sys.executable, str(packages / "bin/vllm-router"), "--host", "127.0.0.1", "--port", str(port)]
        command += ["--worker-urls", *(f"http://127.0.0.1:{engine}" for engine in engines), "--policy", "round_robin"]
        command += ["--log-level", "warning", "--prometheus-port", str(admin)]
    with pinned(name, core, command, port, **environment) as running:
        yield running


def router_python() -> str:
    """A Python like that of the router's image, which is optimised with profiles as Debian's and the official images' are: others, such as
    pyenv's, need a quarter more CPU.
    """
    if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        return sys.executable
    return shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin") or sys.executable


def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light, then run this again")
    return found


def vllm_router() -> Path:
    """A folder with the Rust router of the vLLM project, fetched once."""
    requirements = HERE / "requirements.txt"
    return made_once(cache_folder() / "bench-router", content_hash([requirements], root=HERE), _fetch) / "packages"


def _fetch(folder: Path) -> None:
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    subprocess.run([*uv, "--target", str(folder / "packages"), "-r", str(HERE / "requirements.txt")], check=True)
