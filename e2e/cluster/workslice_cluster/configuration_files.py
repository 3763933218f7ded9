"""Renders the daemons' configuration files: containerd, CNI, kubelet, kube-proxy, CoreDNS and the API server's audit."""

import json
from collections.abc import Mapping
from pathlib import Path

from workslice_cluster import kubeconfig, pause_image
from workslice_cluster.instance import Instance
from workslice_cluster.node import Node

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
WORKSLICE_NAMESPACE = "workslice-system"


def of_node(node: Node) -> Mapping[str, str]:
    """Return file name, relative to the node's configuration folder, to content."""
    return {
        "containerd.toml": _containerd(node),
        "cni/10-workslice.conflist": json.dumps(_cni(node), indent=2),
        "kubelet.json": json.dumps(_kubelet(node), indent=2),
        "kube-proxy.json": json.dumps(_kube_proxy(node), indent=2),
        "resolv.conf": f"nameserver {node.instance.dns_service_address}\n",
    }


def of_control_plane(instance: Instance) -> Mapping[str, str]:
    """Return file name, relative to the first node's configuration folder, to content."""
    return {"Corefile": _corefile(instance), "audit-policy.json": json.dumps(_audit_policy(), indent=2)}


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files into a folder, which is made."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def _containerd(node: Node) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE a sandbox could not lower its score and would not start.
    # disable_apparmor: loading a profile would change the whole machine.
    return f"""version = 2
root = "{node.folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image.REFERENCE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_unprivileged_ports = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{node.configuration}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def _cni(node: Node) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": node.pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        # Nothing outside needs an address to answer to, and policies on other nodes must see the pod's own.
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "workslice", "plugins": [bridge, ports]}


def _kubelet(node: Node) -> dict[str, object]:
    pki = node.instance.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.own('kubelet')}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{node.own('kubelet')}.key"),
        "healthzBindAddress": node.address,
        "clusterDNS": [node.instance.dns_service_address],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.configuration / "resolv.conf"),
        "failSwapOn": False,
        # So that a device's health is seen at once; the report frequency would follow it if it were not named.
        "nodeStatusUpdateFrequency": "1s",
        "nodeStatusReportFrequency": "1m",
        # Raising limits or lowering its own score needs CAP_SYS_RESOURCE.
        "maxOpenFiles": 20000,
        "oomScoreAdj": 0,
        # A full disk must not evict pods whose images no registry could give back.
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "imageMaximumGCAge": "0s",
    }


def _kube_proxy(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig.path_of(node.instance, "kube-proxy"))},
        "hostnameOverride": node.name,
        "healthzBindAddress": f"{node.address}:10256",
        "mode": "nftables",
        "clusterCIDR": node.instance.pod_network,
        "linux": {"oomScoreAdj": 0},
        # Zeros: leave the kernel's connection tracking limits alone, they belong to the machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _corefile(instance: Instance) -> str:
    return f""".:53 {{
    bind {instance.node_address}
    errors
    ready {instance.node_address}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig.path_of(instance, "coredns")}
        ttl 5
    }}
    cache 5
}}
"""


def _audit_policy() -> dict[str, object]:
    # What pods write is little; Kubernetes' own controllers and nodes write all the time, and reads would be many times more. What
    # Workslice itself reads is recorded too: a right that it has and never uses is one too many.
    writes = ["create", "update", "patch", "delete", "deletecollection"]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{WORKSLICE_NAMESPACE}"]},
            {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "verbs": writes},
            {"level": "None"},
        ],
    }
