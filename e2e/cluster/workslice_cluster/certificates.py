"""The cluster's own certificate authority and every certificate that its parts need."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.commands import run
from workslice_cluster.instance import Instance

DAYS = 3650


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
    node = instance.node_name
    return (
        Certificate("kube-apiserver", "/CN=kube-apiserver", ("serverAuth",), api_names),
        Certificate("kube-apiserver-to-kubelet", "/O=system:masters/CN=kube-apiserver-to-kubelet"),
        Certificate("admin", "/O=system:masters/CN=admin"),
        Certificate("kube-controller-manager", "/CN=system:kube-controller-manager"),
        Certificate("kube-scheduler", "/CN=system:kube-scheduler"),
        Certificate("kube-proxy", "/CN=system:kube-proxy"),
        Certificate("coredns", "/CN=system:coredns"),
        Certificate(
            "kubelet",
            f"/O=system:nodes/CN=system:node:{node}",
            ("clientAuth", "serverAuth"),
            (f"DNS:{node}", f"IP:{instance.node_address}"),
        ),
    )


def create(instance: Instance) -> None:
    """Write authority, service account keys and certificates into the state folder.

    Only for a cluster that does not run: the API server reloads changed files, and clients would no longer trust it.
    """
    folder = instance.pki
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    failure = "certificates could not be made"
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    ca, ca_key = folder / "ca.crt", folder / "ca.key"
    usage = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
    authority = ("openssl", "req", "-x509", *key, "-keyout", ca_key, "-out", ca, "-days", DAYS)
    run([*authority, "-subj", "/CN=workslice-cluster", *usage], failure=failure)
    account, account_public = folder / "service-account.key", folder / "service-account.pub"
    run(["openssl", "genrsa", "-out", account, "2048"], failure=failure)
    run(["openssl", "rsa", "-in", account, "-pubout", "-out", account_public], failure=failure)
    for certificate in table(instance):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            request, extensions = Path(scratch, "request"), Path(scratch, "extensions")
            extensions.write_text(certificate.extensions)
            own_key, own = folder / f"{certificate.name}.key", folder / f"{certificate.name}.crt"
            ask = ("openssl", "req", "-new", *key, "-keyout", own_key, "-out", request)
            run([*ask, "-subj", certificate.subject], failure=failure)
            sign = ("openssl", "x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial")
            run([*sign, "-days", DAYS, "-extfile", extensions, "-out", own], failure=failure)
