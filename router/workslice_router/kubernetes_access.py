"""How to reach the Kubernetes API: the pod's service account, or the file that KUBECONFIG names when the router runs outside."""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class KubernetesConfigError(Exception):
    """The API cannot be reached with what is configured; the text says what is missing."""


@dataclass(frozen=True)
class KubernetesAccess:
    """Address and identity."""

    server: str
    tls: ssl.SSLContext | bool
    token_file: Path | None = None
    """Read for every request: the kubelet rotates it."""
    token: str | None = None

    def authorization(self) -> dict[str, str]:
        """The header that identifies this router, if it has a token.

        Raises:
            OSError: the token file cannot be read.
        """
        token = self.token_file.read_text(encoding="ascii").strip() if self.token_file is not None else self.token
        return {"authorization": f"Bearer {token}"} if token else {}


def kubernetes_access(environment: Mapping[str, str] = os.environ) -> KubernetesAccess:
    """Access by KUBECONFIG if set, else by the service account of the pod.

    Raises:
        KubernetesConfigError: there is neither, or the file cannot be used.
    """
    if path := environment.get("KUBECONFIG"):
        return _from_file(Path(path))
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    token_file = SERVICE_ACCOUNT / "token"
    if not host or not token_file.exists():
        raise KubernetesConfigError(
            "no Kubernetes API is configured: run in a pod with a service account, set KUBECONFIG, or give --pools FILE"
        )
    address = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    return KubernetesAccess(f"https://{address}:{port}", tls, token_file=token_file)


def _from_file(path: Path) -> KubernetesAccess:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        current = config["current-context"]
        context = _named(config["contexts"], current)["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return KubernetesAccess(
            cluster["server"].rstrip("/"),
            _tls(cluster, user, path.parent),
            token_file=_beside(path.parent, user.get("tokenFile")),
            token=user.get("token"),
        )
    except KubernetesConfigError:
        raise
    except OSError as error:
        raise KubernetesConfigError(f"cannot use the file {path} that KUBECONFIG names: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError, binascii.Error, yaml.YAMLError) as error:
        raise KubernetesConfigError(f"{path} is not a usable kubeconfig: {error!r}") from None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KubernetesConfigError(f"the kubeconfig has no entry called '{name}'")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext | bool:
    if "exec" in user or "auth-provider" in user:
        raise KubernetesConfigError(
            "the kubeconfig gets its credentials from a plugin: use a token or a client certificate"
        )
    if cluster["server"].startswith("http://"):
        return False
    tls = ssl.create_default_context()
    if authority := _pem(cluster, "certificate-authority", folder):
        tls = ssl.create_default_context(cadata=authority.decode())
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    certificate, key = _pem(user, "client-certificate", folder), _pem(user, "client-key", folder)
    if certificate and key:
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads certificates from files only
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _pem(entry: Mapping[str, Any], field: str, folder: Path) -> bytes | None:
    if data := entry.get(f"{field}-data"):
        return base64.b64decode(data)
    file = _beside(folder, entry.get(field))
    return file.read_bytes() if file is not None else None


def _beside(folder: Path, name: str | None) -> Path | None:
    return folder / name if name else None
