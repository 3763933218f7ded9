"""The daemons that every node has: containers, the kubelet, Services, devices, network policies."""

import sys
from collections.abc import Mapping
from pathlib import Path

from workslice_cluster import kubeconfig
from workslice_cluster.component import Component
from workslice_cluster.node import Node

PACKAGE_PARENT = Path(__file__).resolve().parent.parent


def node_daemons(node: Node, binaries: Mapping[str, Path]) -> tuple[Component, ...]:
    """Return the daemons that every node has, in the order in which they start."""
    instance = node.instance
    return (
        Component("containerd", node, ("/usr/bin/containerd", "--config", f"{node.configuration}/containerd.toml")),
        Component(
            "kubelet",
            node,
            (
                str(binaries["kubelet"]),
                f"--config={node.configuration}/kubelet.json",
                f"--kubeconfig={kubeconfig.path_of(instance, node.own('kubelet'))}",
                f"--node-ip={node.address}",
                f"--hostname-override={node.name}",
                "--v=2",
            ),
            f"http://{node.address}:10248/healthz",
        ),
        Component(
            "kube-proxy",
            node,
            (str(binaries["kube-proxy"]), f"--config={node.configuration}/kube-proxy.json"),
            f"http://{node.address}:10256/livez",
        ),
        Component(
            "device-plugin",
            node,
            (
                str(Path(sys.executable).with_name("python3")),
                "-m",
                "workslice_cluster.device_plugin",
                str(node.folder),
            ),
            environment={
                "PYTHONPATH": str(PACKAGE_PARENT),
                "PYTHONUNBUFFERED": "1",
                "WORKSLICE_CACHE": str(instance.cache),
            },
        ),
        # The last: it ends at once when its node is not registered yet.
        Component(
            "kube-router",
            node,
            (
                str(binaries["kube-router"]),
                f"--kubeconfig={kubeconfig.path_of(instance, 'kube-router')}",
                f"--hostname-override={node.name}",
                # It enforces network policies only; pods and Services get their network from others.
                "--run-firewall=true",
                "--run-router=false",
                "--run-service-proxy=false",
                "--enable-cni=false",
                f"--service-cluster-ip-range={instance.service_network}",
                # Changes are followed at once; this is how often rules that somebody removed are restored.
                "--iptables-sync-period=10s",
            ),
            f"http://{node.address}:20244/healthz",
        ),
    )
