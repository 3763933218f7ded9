"""The daemons that a cluster has once, on its first node: store, API server, controllers, scheduler, names."""

from collections.abc import Mapping
from pathlib import Path

from workslice_cluster import audit_log, kubeconfig
from workslice_cluster.component import Component
from workslice_cluster.instance import Instance
from workslice_cluster.node import first


def control_plane_daemons(
    instance: Instance, binaries: Mapping[str, Path], kubelets: bool = True
) -> tuple[Component, ...]:
    """Return the daemons that a cluster has once, in the order in which they start.

    `kubelets`: nodes have some, so that one that is not heard of is lost.
    """
    own = first(instance)
    node, pki, configuration = own.address, instance.pki, own.configuration
    controller_manager, scheduler = (
        kubeconfig.path_of(instance, name) for name in ("kube-controller-manager", "kube-scheduler")
    )
    etcd_client, etcd_peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return (
        Component(
            "etcd",
            own,
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
            own,
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
                # APIs that others serve, such as metrics-server's.
                f"--proxy-client-cert-file={pki}/kube-aggregator.crt",
                f"--proxy-client-key-file={pki}/kube-aggregator.key",
                f"--requestheader-client-ca-file={pki}/ca.crt",
                "--requestheader-allowed-names=kube-aggregator",
                "--requestheader-username-headers=X-Remote-User",
                "--requestheader-group-headers=X-Remote-Group",
                "--requestheader-extra-headers-prefix=X-Remote-Extra-",
                "--enable-aggregator-routing",
                f"--service-account-key-file={pki}/service-account.pub",
                f"--service-account-signing-key-file={pki}/service-account.key",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-cluster-ip-range={instance.service_network}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged=true",
                "--profiling=false",
                f"--audit-policy-file={configuration}/audit-policy.json",
                f"--audit-log-path={audit_log.path_of(instance)}",
                "--audit-log-maxsize=16",  # MiB, and as much again in each of the rotated ones
                "--audit-log-maxbackup=3",
            ),
            f"{instance.api_server}/readyz",
            patience=120,
        ),
        Component(
            "kube-controller-manager",
            own,
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
                # The default of 20 requests a second delays the first service accounts by seconds, and thousands of pods by minutes.
                "--kube-api-qps=1000",
                "--kube-api-burst=2000",
                # Tests wait for it; it looks at HorizontalPodAutoscalers only.
                "--horizontal-pod-autoscaler-sync-period=5s",
                f"--bind-address={node}",
                f"--service-cluster-ip-range={instance.service_network}",
                *(() if kubelets else ("--controllers=*,-node-lifecycle-controller",)),
            ),
            f"https://{node}:10257/healthz",
        ),
        Component(
            "kube-scheduler",
            own,
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
            "coredns",
            own,
            (str(binaries["coredns"]), "-conf", f"{configuration}/Corefile"),
            f"http://{node}:8181/ready",
        ),
    )
