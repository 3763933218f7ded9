"""The table of the cluster's daemons: how each is started and where it says that it is well."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workslice_cluster import kubeconfig
from workslice_cluster.configuration_files import CONTAINERD_SOCKET
from workslice_cluster.instance import Instance

PACKAGE_PARENT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Component:
    """One daemon. `health` is a URL that the host can reach, or None when being alive is all that can be asked."""

    name: str
    argv: tuple[str, ...]
    health: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: float = 60  # seconds from start to healthy, on a busy machine


def table(instance: Instance, binaries: Mapping[str, Path]) -> tuple[Component, ...]:
    """Return the daemons in the order in which they start."""
    node, pki, configuration = instance.node_address, instance.pki, instance.configuration
    controller_manager, scheduler, kubelet = (
        kubeconfig.path_of(instance, name) for name in ("kube-controller-manager", "kube-scheduler", "kubelet")
    )
    etcd_client, etcd_peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return (
        Component("containerd", ("/usr/bin/containerd", "--config", f"{configuration}/containerd.toml")),
        Component(
            "etcd",
            (
                str(binaries["etcd"]),
                f"--data-dir={instance.state}/etcd",
                f"--listen-client-urls={etcd_client}",
                f"--advertise-client-urls={etcd_client}",
                f"--listen-peer-urls={etcd_peer}",
                f"--initial-advertise-peer-urls={etcd_peer}",
                f"--initial-cluster=default={etcd_peer}",
                f"--listen-metrics-urls=http://{node}:2381",
                "--log-level=warn",
                "--unsafe-no-fsync",  # the data dies with the cluster anyway
            ),
            f"http://{node}:2381/health",
        ),
        Component(
            "kube-apiserver",
            (
                str(binaries["kube-apiserver"]),
                f"--etcd-servers={etcd_client}",
                f"--advertise-address={node}",
                "--bind-address=0.0.0.0",
                "--secure-port=6443",
                f"--tls-cert-file={pki}/kube-apiserver.crt",
                f"--tls-private-key-file={pki}/kube-apiserver.key",
                f"--client-ca-file={pki}/ca.crt",
                f"--kubelet-client-certificate={pki}/kube-apiserver-to-kubelet.crt",
                f"--kubelet-client-key={pki}/kube-apiserver-to-kubelet.key",
                f"--kubelet-certificate-authority={pki}/ca.crt",
                "--kubelet-preferred-address-types=InternalIP,Hostname",
                f"--service-account-key-file={pki}/service-account.pub",
                f"--service-account-signing-key-file={pki}/service-account.key",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-cluster-ip-range={instance.service_network}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged=true",
                "--profiling=false",
            ),
            f"{instance.api_server}/readyz",
            patience=120,
        ),
        Component(
            "kube-controller-manager",
            (
                str(binaries["kube-controller-manager"]),
                f"--kubeconfig={controller_manager}",
                f"--authentication-kubeconfig={controller_manager}",
                f"--authorization-kubeconfig={controller_manager}",
                f"--service-account-private-key-file={pki}/service-account.key",
                f"--root-ca-file={pki}/ca.crt",
                f"--cluster-signing-cert-file={pki}/ca.crt",
                f"--cluster-signing-key-file={pki}/ca.key",
                "--use-service-account-credentials",
                "--leader-elect=false",
                # The default of 20 requests a second delays the first service accounts by seconds.
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                f"--bind-address={node}",
                f"--service-cluster-ip-range={instance.service_network}",
            ),
            f"https://{node}:10257/healthz",
        ),
        Component(
            "kube-scheduler",
            (
                str(binaries["kube-scheduler"]),
                f"--kubeconfig={scheduler}",
                f"--authentication-kubeconfig={scheduler}",
                f"--authorization-kubeconfig={scheduler}",
                "--leader-elect=false",
                f"--bind-address={node}",
            ),
            f"https://{node}:10259/healthz",
        ),
        Component(
            "kubelet",
            (
                str(binaries["kubelet"]),
                f"--config={configuration}/kubelet.json",
                f"--kubeconfig={kubelet}",
                f"--node-ip={node}",
                f"--hostname-override={instance.node_name}",
                "--v=2",
            ),
            f"http://{node}:10248/healthz",
        ),
        Component(
            "kube-proxy",
            (str(binaries["kube-proxy"]), f"--config={configuration}/kube-proxy.json"),
            f"http://{node}:10256/livez",
        ),
        Component(
            "coredns", (str(binaries["coredns"]), "-conf", f"{configuration}/Corefile"), f"http://{node}:8181/ready"
        ),
        Component(
            "device-plugin",
            (
                str(Path(sys.executable).with_name("python3")),
                "-m",
                "workslice_cluster.device_plugin",
                str(instance.state),
            ),
            environment={
                "PYTHONPATH": str(PACKAGE_PARENT),
                "PYTHONUNBUFFERED": "1",
                "WORKSLICE_CACHE": str(instance.cache),
            },
        ),
    )


def containerd_command(*words: str) -> list[str]:
    """Return a `ctr` command in the kubelet's image namespace, to be run inside the cluster."""
    return ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", *words]
