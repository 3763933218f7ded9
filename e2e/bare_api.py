"""A Kubernetes API of a test's own: etcd and the API server as plain processes of the host, with neither controllers nor nodes.

Nothing but the test and the operator under test writes to it, and it is there in seconds.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demo.cluster_client import Cluster, connect
from demo.waiting import NotYet, wait_until

from free_ports import free_port
from workslice_cluster import binaries, certificates, kubeconfig
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.certificates import Certificate
from workslice_cluster.health import answers_well
from workslice_cluster.instance import MOST_INSTANCES, Instance
from workslice_cluster.repository import repository

HOST = "127.0.0.1"
SYSTEM = "workslice-system"
_OPERATOR = Certificate("operator", f"/CN=system:serviceaccount:{SYSTEM}:workslice-operator")
_START_SECONDS = 60


@dataclass
class BareApi:
    """The running API, and what speaks for its two users: the administrator and the operator's service account."""

    cluster: Cluster
    """As its administrator."""
    server: str
    pki: Path
    _etcd: Sequence[str]
    _api_server: Sequence[str]
    _processes: list["subprocess.Popen[bytes]"]
    log: Path

    @property
    def operators_certificate(self) -> tuple[Path, Path]:
        """Certificate and key by which the API knows the operator: with the rights that the chart gives it, and no others."""
        return self.pki / "operator.crt", self.pki / "operator.key"

    def start(self) -> None:
        """Start both processes, or the API server alone if the store runs; return when the API answers."""
        if not self._processes:
            self._run(self._etcd)
        self._run(self._api_server)

        def well() -> None:
            if any(one.poll() is not None for one in self._processes) or not answers_well(f"{self.server}/readyz"):
                raise NotYet(self.log.read_text(errors="replace")[-800:])

        wait_until("the API server to be ready", well, seconds=_START_SECONDS, every=0.1)

    def restart(self) -> None:
        """The API server begins anew on what is stored: it has forgotten what watches could go on from."""
        self._end(self._processes.pop())
        self.start()

    def stop(self) -> None:
        """End both."""
        while self._processes:
            self._end(self._processes.pop())

    def _run(self, argv: Sequence[str]) -> None:
        # setpriv: it must not outlive a test run that was killed.
        command = ["setpriv", "--pdeathsig", "KILL", *argv]
        with self.log.open("ab") as output:
            self._processes.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            )

    @staticmethod
    def _end(process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()


@contextmanager
def bare_api(folder: Path) -> Iterator[BareApi]:
    """An API with Workslice's CRDs and the rights of its operator; all its files are in `folder`."""
    api = _made(folder)
    try:
        api.start()
        _install(api.cluster)
        yield api
    finally:
        api.stop()


def _made(folder: Path) -> BareApi:
    programs = binaries.ensure(cache_folder())
    # Only what is derived from its folder is used: nothing of this runs as an instance of the embedded cluster.
    files = Instance(MOST_INSTANCES, cache_folder(), folder)
    pki = files.pki
    certificates.create_authority(files)
    for certificate in (*certificates.table(files), _OPERATOR):
        if certificate.name in ("kube-apiserver", "admin", "operator"):
            certificates.issue(files, certificate)
    store, peers, port = (f"http://{HOST}:{free_port()}", f"http://{HOST}:{free_port()}", free_port())
    server = f"https://{HOST}:{port}"
    authority, certificate_text, key = ((pki / name).read_bytes() for name in ("ca.crt", "admin.crt", "admin.key"))
    files.kubeconfig.touch(mode=0o600)
    files.kubeconfig.write_text(kubeconfig.render(server, "admin", authority, certificate_text, key))
    etcd = (
        str(programs["etcd"]),
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={store}",
        f"--advertise-client-urls={store}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--log-level=error",
        "--unsafe-no-fsync",
    )
    api_server = (
        str(programs["kube-apiserver"]),
        f"--etcd-servers={store}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={files.service_network}",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        # Nothing makes service accounts here, without which it would let no pod be created.
        "--disable-admission-plugins=ServiceAccount",
        "--profiling=false",
    )
    return BareApi(connect(files.kubeconfig), server, pki, etcd, api_server, [], folder / "api.log")


def _install(cluster: Cluster) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(repository() / "crds"))
    cluster.kubectl("create", "namespace", SYSTEM)
    chart = str(repository() / "charts" / "workslice")
    rights = ("--namespace", SYSTEM, "--show-only", "templates/operator-rbac.yaml")
    cluster.apply(cluster.helm("template", "workslice", chart, *rights))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
