"""Finding the Kubernetes API and an identity for it."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from workslice_router import kubernetes_access as subject
from workslice_router.kubernetes_access import KubernetesConfigError, kubernetes_access


def kubeconfig(folder: Path, *, cluster: dict[str, Any], user: dict[str, Any]) -> dict[str, str]:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    (folder / "config").write_text(yaml.safe_dump(document))
    return {"KUBECONFIG": str(folder / "config")}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=router -days 1"
    command = [*request.split(), "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def test_the_service_account_of_the_pod(tmp_path: Path, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "ca.crt").write_bytes((certificate / "cert.pem").read_bytes())
    access = kubernetes_access({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert access.server == "https://[fd00::1]:6443"
    assert access.authorization() == {"authorization": "Bearer abc"}


def test_a_kubeconfig_with_a_client_certificate(tmp_path: Path, certificate: Path) -> None:
    paths = {"client-certificate": str(certificate / "cert.pem"), "client-key": str(certificate / "key.pem")}
    cluster = {"server": "https://1.2.3.4:6443/", "certificate-authority": str(certificate / "cert.pem")}
    access = kubernetes_access(kubeconfig(tmp_path, cluster=cluster, user=paths))
    assert access.server == "https://1.2.3.4:6443"
    assert access.authorization() == {}


def test_a_kubeconfig_with_a_token(tmp_path: Path) -> None:
    environment = kubeconfig(tmp_path, cluster={"server": "http://127.0.0.1:8001"}, user={"token": "t"})
    assert kubernetes_access(environment).authorization() == {"authorization": "Bearer t"}


def test_without_anything_it_says_what_there_is_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subject, "SERVICE_ACCOUNT", tmp_path)
    with pytest.raises(KubernetesConfigError, match="set KUBECONFIG, or give --pools FILE"):
        kubernetes_access({})


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubernetesConfigError, match="missing"):
        kubernetes_access({"KUBECONFIG": str(tmp_path / "missing")})
    (tmp_path / "config").write_text("just text")
    with pytest.raises(KubernetesConfigError, match="not a usable kubeconfig"):
        kubernetes_access({"KUBECONFIG": str(tmp_path / "config")})
    plugin = kubeconfig(tmp_path, cluster={"server": "https://x"}, user={"exec": {"command": "aws"}})
    with pytest.raises(KubernetesConfigError, match="token or a client certificate"):
        kubernetes_access(plugin)
