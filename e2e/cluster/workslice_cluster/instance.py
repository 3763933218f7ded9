"""Names, addresses and folders of one cluster; the instance number keeps several clusters on one machine apart."""

import os
from dataclasses import dataclass
from pathlib import Path

from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError

MOST_INSTANCES = 8


@dataclass(frozen=True)
class Instance:
    """One cluster. Everything that must not collide with another cluster on the machine derives from the number."""

    number: int
    cache: Path
    state: Path

    @property
    def node_name(self) -> str:
        """Name of the node in Kubernetes."""
        return "workslice-node" if self.number == 0 else f"workslice-{self.number}-node"

    @property
    def node_address(self) -> str:
        """Address of the node and of every server that listens on it."""
        return f"10.90.{self.number}.1"

    @property
    def node_network(self) -> str:
        """Network of the node address (CIDR)."""
        return f"10.90.{self.number}.0/24"

    @property
    def link(self) -> str:
        """Host end of the virtual cable into the cluster."""
        return f"workslice{self.number}"

    @property
    def link_host_address(self) -> str:
        """Address of the host at the cable."""
        return f"10.91.{self.number}.1"

    @property
    def link_cluster_address(self) -> str:
        """Address of the cluster at the cable; the host's routes go through it."""
        return f"10.91.{self.number}.2"

    @property
    def pod_network(self) -> str:
        """All pod addresses of the cluster (CIDR)."""
        return f"10.{80 + self.number}.0.0/16"

    @property
    def service_network(self) -> str:
        """Cluster IPs (CIDR)."""
        return f"10.{96 + self.number}.0.0/16"

    @property
    def kubernetes_service_address(self) -> str:
        """Cluster IP of the API server: Kubernetes takes the first one."""
        return f"10.{96 + self.number}.0.1"

    @property
    def dns_service_address(self) -> str:
        """Cluster IP of the name service."""
        return f"10.{96 + self.number}.0.10"

    @property
    def cgroup(self) -> str:
        """Parent of all the cluster's control groups, so that cleaning up is exact."""
        return f"workslice-{self.number}"

    @property
    def api_server(self) -> str:
        """URL of the API server, the same from the host, the node and pods."""
        return f"https://{self.node_address}:6443"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "admin.kubeconfig"

    @property
    def log(self) -> Path:
        """Folder of the daemons' logs; kept by `down`."""
        return self.state / "log"

    @property
    def pki(self) -> Path:
        """Folder of keys and certificates."""
        return self.state / "pki"

    @property
    def configuration(self) -> Path:
        """Folder of the daemons' configuration files."""
        return self.state / "configuration"

    @property
    def lock(self) -> Path:
        """Lock file, beside the state folder because `down` empties that."""
        return self.state.with_name(self.state.name + ".lock")

    @property
    def host_networks(self) -> tuple[str, ...]:
        """Networks that the host routes into the cluster."""
        return (self.node_network, self.pod_network, self.service_network)


def from_environment() -> Instance:
    """Return the cluster that WORKSLICE_CLUSTER_INSTANCE (0-7, default 0) and WORKSLICE_CLUSTER_STATE name."""
    text = os.environ.get("WORKSLICE_CLUSTER_INSTANCE", "0")
    if not text.isdecimal() or int(text) >= MOST_INSTANCES:
        raise ClusterError(f"WORKSLICE_CLUSTER_INSTANCE is {text!r}: give a number from 0 to {MOST_INSTANCES - 1}")
    number = int(text)
    cache = cache_folder()
    default = cache / ("cluster" if number == 0 else f"cluster-{number}")
    return Instance(number, cache, Path(os.environ.get("WORKSLICE_CLUSTER_STATE") or default).absolute())
