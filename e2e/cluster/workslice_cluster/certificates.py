"""The cluster's own certificate authority and every certificate that its parts need."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.commands import run
from workslice_cluster.instance import Instance
from workslice_cluster.node import Node, first

DAYS = 3650
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_FAILURE = "certificates could not be made"


@dataclass(frozen=True)
class Certificate:
    """What a certificate says: file name, subject, what it may be used for, the names it is valid for."""

    name: str
    subject: str
    usages: tuple[str, ...] = ("clientAuth",)
    names: tuple[str, ...] = ()

    @property
    def extensions(self) -> str:
        """OpenSSL extension file."""
        lines = ["basicConstraints=CA:FALSE", "keyUsage=digitalSignature", f"extendedKeyUsage={','.join(self.usages)}"]
        if self.names:
            lines.append(f"subjectAltName={','.join(self.names)}")
        return "\n".join(lines) + "\n"


def table(instance: Instance) -> tuple[Certificate, ...]:
    """Return all certificates of the cluster; Kubernetes reads roles out of the subjects."""
    service = "kubernetes.default.svc"
    api_names = (
        *(
            f"DNS:{name}"
            for name in ("localhost", "kubernetes", "kubernetes.default", service, f"{service}.cluster.local")
        ),
        *(f"IP:{ip}" for ip in ("127.0.0.1", instance.node_address, instance.kubernetes_service_address)),
    )
    return (
        Certificate("kube-apiserver", "/CN=kube-apiserver", ("serverAuth",), api_names),
        Certificate("kube-apiserver-to-kubelet", "/O=system:masters/CN=kube-apiserver-to-kubelet"),
        # The API server as those see it whose APIs it passes on.
        Certificate("kube-aggregator", "/CN=kube-aggregator"),
        Certificate("admin", "/O=system:masters/CN=admin"),
        Certificate("kube-controller-manager", "/CN=system:kube-controller-manager"),
        Certificate("kube-scheduler", "/CN=system:kube-scheduler"),
        Certificate("kube-proxy", "/CN=system:kube-proxy"),
        Certificate("coredns", "/CN=system:coredns"),
        Certificate("kube-router", "/CN=system:kube-router"),
        of_kubelet(first(instance)),
    )


def of_kubelet(node: Node) -> Certificate:
    """Return the certificate of a node's kubelet, by which the API server knows the node."""
    subject = f"/O=system:nodes/CN=system:node:{node.name}"
    return Certificate(
        node.own("kubelet"), subject, ("clientAuth", "serverAuth"), (f"DNS:{node.name}", f"IP:{node.address}")
    )


def create_authority(instance: Instance) -> None:
    """Write certificate authority and service account keys into the state folder.

    Only for a cluster that does not run: its clients would no longer trust each other.
    """
    folder = instance.pki
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = ("openssl", "req", "-x509", *_NEW_KEY, "-keyout", folder / "ca.key", "-out", folder / "ca.crt")
    usage = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
    run([*authority, "-days", DAYS, "-subj", "/CN=workslice-cluster", *usage], failure=_FAILURE)
    account, account_public = folder / "service-account.key", folder / "service-account.pub"
    run(["openssl", "genrsa", "-out", account, "2048"], failure=_FAILURE)
    run(["openssl", "rsa", "-in", account, "-pubout", "-out", account_public], failure=_FAILURE)


def issue(instance: Instance, certificate: Certificate) -> None:
    """Write a certificate with its key, unless it is there: a live cluster keeps the ones it has."""
    folder = instance.pki
    own_key, own = folder / f"{certificate.name}.key", folder / f"{certificate.name}.crt"
    if own.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        request, extensions, signed = Path(scratch, "request"), Path(scratch, "extensions"), Path(scratch, "signed")
        extensions.write_text(certificate.extensions)
        ask = ("openssl", "req", "-new", *_NEW_KEY, "-keyout", own_key, "-out", request)
        run([*ask, "-subj", certificate.subject], failure=_FAILURE)
        sign = ("openssl", "x509", "-req", "-in", request, "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key")
        run([*sign, "-CAcreateserial", "-days", DAYS, "-extfile", extensions, "-out", signed], failure=_FAILURE)
        signed.rename(own)
