"""The link of an added node: a virtual cable between the node and the bridge of the first node, which can be cut and healed."""

import json
import subprocess

from workslice_cluster.commands import run
from workslice_cluster.namespaces import inside
from workslice_cluster.network import BRIDGE_NETFILTER
from workslice_cluster.node import Node, first


def script(node: Node) -> str:
    """Return the shell script for inside the node's namespaces, where the cable's end already is."""
    return f"""set -e
hostname {node.name}
ip link set lo up
ip addr add {node.address}/24 dev eth0
ip link set eth0 up
ip route add default via {first(node.instance).address}
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >{BRIDGE_NETFILTER}
"""


def create(node: Node, first_init: int, init: int) -> None:
    """Lay the cable between the namespaces of two inits, and give the node its address and routes."""
    failure = f"the link of node {node.name} could not be made"
    # Only the network namespace is entered: the PID is the host's.
    add = ["ip", "link", "add", node.port, "type", "veth", "peer", "name", "eth0", "netns", str(init)]
    run(["nsenter", "-t", str(first_init), "-n", "--", *add], failure=failure)
    run(inside(first_init, ["ip", "link", "set", node.port, "master", "node0", "up"]), failure=failure)
    run(inside(init, ["sh", "-c", script(node)]), failure=failure)
    run(inside(first_init, ["ip", "route", "replace", node.pod_network, "via", node.address]), failure=failure)


def set_state(node: Node, first_init: int, state: str) -> None:
    """Cut (`down`) or heal (`up`) the link: packets vanish, connections are not reset."""
    command = ["ip", "link", "set", node.port, state]
    run(inside(first_init, command), failure=f"the link of node {node.name} could not be set {state}")


def is_cut(node: Node, first_init: int) -> bool:
    """Say whether the link is there and cut."""
    listed = _ip(first_init, "-json", "link", "show", node.port)
    return listed.returncode == 0 and "UP" not in json.loads(listed.stdout)[0]["flags"]


def remove(node: Node, first_init: int) -> None:
    """Remove what the node left at the first one; what is not there is fine."""
    _ip(first_init, "link", "delete", node.port)
    _ip(first_init, "route", "delete", node.pod_network)


def _ip(first_init: int, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(inside(first_init, ["ip", *words]), capture_output=True, text=True, check=False)
