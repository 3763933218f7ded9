"""The cluster's network: a node address without a way out, and a virtual cable over which the host reaches everything."""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.instance import Instance
from workslice_cluster.namespaces import inside

CLUSTER_END = "host0"
# The mark by which kube-router knows packets that a policy has admitted.
PASSES_POLICIES = "0x10000/0x10000"
BRIDGE_NETFILTER = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


def script(instance: Instance) -> str:
    """Return the shell script for inside the cluster's namespaces, where the cable's end already is."""
    return f"""set -e
hostname {instance.node_name}
ip link set lo up
ip link add node0 type bridge
ip addr add {instance.node_address}/24 dev node0
ip link set node0 up
ip addr add {instance.link_cluster_address}/30 dev {CLUSTER_END}
ip link set {CLUSTER_END} up
# Services are translated after the routing decision, so a route must exist; nothing is at its end.
ip route add {instance.service_network} dev node0
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >{BRIDGE_NETFILTER}
"""


def let_host_pass(instance: Instance, init: int) -> None:
    """Let the host reach every pod of a node whatever network policies say, as a node may; repeating it changes nothing."""
    rule = f"PREROUTING -s {instance.link_host_address} -j MARK --set-xmark {PASSES_POLICIES}"
    command = f"iptables -w 10 -t mangle -C {rule} 2>/dev/null || iptables -w 10 -t mangle -A {rule}"
    run(inside(init, ["sh", "-c", command]), failure="the host could not be let through network policies")


def host_commands(instance: Instance, init: int) -> list[list[str]]:
    """Return the commands that lay the cable: link first, then address and routes on the host."""
    link, end = instance.link, ["peer", "name", CLUSTER_END, "netns", str(init)]
    return [
        ["ip", "link", "add", link, "type", "veth", *end],
        ["ip", "addr", "add", f"{instance.link_host_address}/30", "dev", link],
        ["ip", "link", "set", link, "up"],
    ]


def route_commands(instance: Instance) -> list[list[str]]:
    """Return the commands that send the cluster's networks over the cable; its other end must be up."""
    via = ["via", instance.link_cluster_address, "dev", instance.link]
    return [["ip", "route", "add", network, *via] for network in instance.host_networks]


def conflicting_routes(routes: Iterable[Mapping[str, Any]], instance: Instance) -> list[str]:
    """Return the host's routes (as `ip -json route` gives them) that overlap the cluster's networks."""
    own = (*instance.host_networks, f"{instance.link_host_address}/30")
    wanted = [ipaddress.ip_network(text, strict=False) for text in own]
    conflicts = []
    for route in routes:
        if route["dst"] == "default" or route.get("dev") == instance.link:
            continue
        if any(ipaddress.ip_network(route["dst"], strict=False).overlaps(network) for network in wanted):
            conflicts.append(f"{route['dst']} dev {route.get('dev', '?')}")
    return conflicts


def check_host(instance: Instance) -> None:
    """Raise ClusterError when the machine's own network is in the way."""
    routes = json.loads(run(["ip", "-json", "-4", "route"], failure="the machine's routes cannot be read"))
    if conflicts := conflicting_routes(routes, instance):
        raise ClusterError(
            f"networks of this machine overlap the cluster's ({', '.join(conflicts)}): "
            "set WORKSLICE_CLUSTER_INSTANCE to another number from 0 to 7, which selects other addresses"
        )
    if not BRIDGE_NETFILTER.exists():
        run(
            ["modprobe", "br_netfilter"],
            failure="the kernel module br_netfilter is missing, and pods need it to reach Services",
        )


def create(instance: Instance, init: int) -> None:
    """Make links, addresses and routes on both sides."""
    failure = "the cluster's network could not be made"
    for command in host_commands(instance, init):
        run(command, failure=failure)
    run(inside(init, ["sh", "-c", script(instance)]), failure=failure)
    for command in route_commands(instance):
        run(command, failure=failure)


def link_exists(instance: Instance) -> bool:
    """Say whether the host end of the cable is there."""
    return Path("/sys/class/net", instance.link).exists()
