"""Server binaries of the cluster, built from the Go modules of the checkout and kept in the cache."""

import hashlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import last_lines
from workslice_cluster.progress import say, step

MODULES = Path(__file__).resolve().parent.parent / "go"
# 1.27 changes JSON so that kubectl's validation of Kubernetes up to 1.37 fails.
GO_VERSION = "go1.26"
FREE_BYTES = 8 << 30
SECONDS_BETWEEN_LINES = 15
_KUBERNETES_VERSION = "1.37.2"
_VERSION_FLAGS = " ".join(
    f"-X k8s.io/{variable}"
    for variable in (
        f"component-base/version.gitVersion=v{_KUBERNETES_VERSION}",
        "component-base/version.gitMajor=1",
        "component-base/version.gitMinor=37",
        f"client-go/pkg/version.gitVersion=v{_KUBERNETES_VERSION}",
    )
)


@dataclass(frozen=True)
class Module:
    """A Go module of the checkout and the programs that come out of it: file name to package."""

    name: str
    programs: Mapping[str, str]
    linker_flags: str = "-s -w"


TABLE = (
    Module(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
        },
        f"-s -w {_VERSION_FLAGS}",
    ),
    Module("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module("coredns", {"coredns": "."}),
    Module("kube-router", {"kube-router": "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"}),
    Module("pause", {"pause": "."}),
)
METRICS_SERVER = Module("metrics-server", {"metrics-server": "sigs.k8s.io/metrics-server/cmd/metrics-server"})
"""Not every cluster's."""


def content_hash(module: Module, sources: Path, go_version: str) -> str:
    """Return 12 hex digits that change whenever the binaries of the module could."""
    digest = hashlib.sha256(
        repr((module.name, sorted(module.programs.items()), module.linker_flags, go_version)).encode()
    )
    for file in sorted(sources.iterdir()):
        if file.name in ("go.mod", "go.sum") or file.suffix == ".go":
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def go_version() -> str:
    """Return the version of the Go toolchain. Raises ClusterError when there is none or it does not fit."""
    try:
        found = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError as error:
        raise ClusterError("Go is not on PATH: install Go 1.26 from https://go.dev/dl/ and run this again") from error
    if found != GO_VERSION and not found.startswith(f"{GO_VERSION}."):
        raise ClusterError(f"Go is {found or 'broken'}, but the server binaries need {GO_VERSION}: put that on PATH")
    return found


def folder_of(cache: Path, module: Module) -> Path:
    """Return where the programs of a module lie once they are built. Raises ClusterError when there is no Go that fits."""
    return cache / "binaries" / f"{module.name}-{content_hash(module, MODULES / module.name, go_version())}"


def ensure(cache: Path, modules: Iterable[Module] = TABLE) -> dict[str, Path]:
    """Build what is not in the cache and return program name to path. Raises ClusterError when a build fails."""
    programs: dict[str, Path] = {}
    for module in modules:
        folder = folder_of(cache, module)
        if not folder.is_dir():
            with step(f"building {', '.join(module.programs)} (module {module.name}, {go_version()})"):
                _build(module, folder)
        programs |= {name: folder / name for name in module.programs}
    return programs


def _build(module: Module, folder: Path) -> None:
    """Build into a temporary folder and rename it, so that a broken build is never taken for a finished one."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if module.name == "kubernetes" and shutil.disk_usage(folder.parent).free < FREE_BYTES:
        raise ClusterError(
            f"less than {FREE_BYTES >> 30} GiB are free at {folder.parent}: free some, or set WORKSLICE_CACHE"
        )
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    unfinished.mkdir()
    try:
        for name, package in module.programs.items():
            _go_build(module, package, unfinished / name)
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # else another build was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for old in folder.parent.glob(f"{module.name}-*"):
        if old != folder and not old.name.endswith(".unfinished"):
            shutil.rmtree(old)


def _go_build(module: Module, package: str, output: Path) -> None:
    # setpriv: a build must not outlive a command that was killed.
    argv = ["setpriv", "--pdeathsig", "TERM", "nice", "go", "build", "-v", "-trimpath"]
    argv += ["-ldflags", module.linker_flags, "-o", str(output), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
    said: list[str] = []
    began = time.monotonic()
    with subprocess.Popen(
        argv, cwd=MODULES / module.name, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as build:
        assert build.stderr is not None
        reader = threading.Thread(target=said.extend, args=(build.stderr,), daemon=True)
        reader.start()
        while True:
            try:
                status = build.wait(SECONDS_BETWEEN_LINES)
                break
            except subprocess.TimeoutExpired:
                say(f"  {output.name}: {len(said)} packages compiled, {time.monotonic() - began:.0f} s")
        reader.join(10)
    if status != 0:
        raise ClusterError(
            f"building {package} failed; if a download failed, check the network and the Go proxy, then run this again\n"
            + last_lines("".join(said))
        )
