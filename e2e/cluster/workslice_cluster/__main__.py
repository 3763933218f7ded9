"""Command line of the embedded cluster."""

import argparse
import os
import sys
from pathlib import Path

from workslice_cluster import (
    added_node,
    components,
    daemons,
    device_health,
    image_import,
    inventory,
    leftovers,
    metrics_server,
    namespaces,
    node_link,
)
from workslice_cluster.bring_up import bring_up
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.cluster_lock import cluster_lock
from workslice_cluster.instance import Instance, from_environment
from workslice_cluster.node import added, find_added, first, next_node
from workslice_cluster.prepare import prepare
from workslice_cluster.progress import say, step
from workslice_cluster.status_report import status_report


def main() -> int:
    """Run one command and return the exit status."""
    try:
        return _run(_parser().parse_args(), from_environment())
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; `down` removes what is there, `up` goes on", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workslice_cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare", help="install and build everything, start nothing")
    up = commands.add_parser("up", help="start the cluster, or mend the one that runs")
    up.add_argument("--inventory", type=Path, metavar="FILE", help="JSON with the GPUs the node pretends to have")
    up.add_argument(
        "--control-plane-only", action="store_true", help="no node and no scheduler: the API and its controllers"
    )
    commands.add_parser("down", help="stop the cluster and leave nothing behind but its logs")
    commands.add_parser("status", help="say how every part is")
    load = commands.add_parser("load", help="import OCI archives of images")
    load.add_argument("archives", type=Path, nargs="+", metavar="FILE")
    health = commands.add_parser("health", help="make a device fail or recover")
    health.add_argument("device", metavar="DEVICE_ID")
    health.add_argument("state", choices=[device_health.HEALTHY, device_health.UNHEALTHY])
    stop = commands.add_parser("stop", help="end one component at once, as a crash does; its name is in `status`")
    start = commands.add_parser("start", help="start one component that was stopped, and wait until it is well")
    for parser_of_component in (stop, start):
        parser_of_component.add_argument("component", metavar="COMPONENT")
    metrics = commands.add_parser("metrics", help="add or remove metrics-server, which HorizontalPodAutoscalers need")
    metrics.add_argument("change", choices=["add", "remove"])
    _add_node_commands(commands.add_parser("node", help="add, remove, cut off or heal further nodes"))
    for tool in ("kubectl", "helm"):
        passed = commands.add_parser(tool, help=f"run {tool} against the cluster", add_help=False, prefix_chars="\0")
        passed.add_argument("words", nargs=argparse.REMAINDER)
    return parser


def _add_node_commands(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="node_command", required=True)
    for name, help_text in {
        "add": "add a node, or mend it, and return when it takes pods",
        "remove": "take an added node away at once, as a loss of power does, and delete it from Kubernetes",
        "cut": "cut the network link of an added node",
        "heal": "heal the link",
    }.items():
        command = commands.add_parser(name, help=help_text)
        command.add_argument("name", metavar="NAME")
        if name == "add":
            command.add_argument("--inventory", type=Path, metavar="FILE", help="JSON with the GPUs of the node")


def _run(arguments: argparse.Namespace, instance: Instance) -> int:
    match arguments.command:
        case "prepare":
            prepare(instance.cache)
            say("everything is there")
        case "up":
            with cluster_lock(instance):
                bring_up(instance, prepare(instance.cache), _inventory(arguments), arguments.control_plane_only)
        case "down":
            with cluster_lock(instance):
                _take_down(instance)
        case "status":
            _init(instance)
            well, text = status_report(instance, prepare(instance.cache))
            print(text)
            return 0 if well else 1
        case "load":
            inits = [_init(instance), *filter(None, map(namespaces.find_init, added(instance)))]
            for archive in arguments.archives:
                with step(f"loading {archive}"):
                    for name in {name: None for init in inits for name in image_import.load(init, archive)}:
                        say(f"  {name}")
        case "health":
            device_health.write(instance.state, arguments.device, arguments.state)
        case "stop" | "start":
            with cluster_lock(instance):
                _stop_or_start(instance, arguments)
        case "metrics":
            with cluster_lock(instance):
                _change_metrics(instance, arguments.change)
        case "node":
            with cluster_lock(instance):
                _change_node(instance, arguments)
        case tool:
            _init(instance)
            program = getattr(prepare(instance.cache), tool)
            no_proxy = {"NO_PROXY": "*", "no_proxy": "*"}
            environment = {**os.environ, **no_proxy, "KUBECONFIG": str(instance.kubeconfig)}
            os.execve(program, [tool, *arguments.words], environment)
    return 0


def _take_down(instance: Instance) -> None:
    if not leftovers.find(instance):
        leftovers.remove(instance)  # files of its state may be there
        say(f"no cluster runs as instance {instance.number}: there is nothing to stop")
        return
    with step("stopping the cluster"):
        leftovers.remove(instance)
    say(f"the cluster is gone; its logs are in {instance.log}")


def _stop_or_start(instance: Instance, arguments: argparse.Namespace) -> None:
    _init(instance)
    parts = prepare(instance.cache)
    component = components.find(instance, parts.binaries, arguments.component)
    if arguments.command == "stop":
        daemons.stop(component)
        return
    init = namespaces.find_init(component.node)
    if init is None:
        raise ClusterError(f"node {component.node.name} is lost: run `node add {component.node.name}`")
    daemons.ensure(component, init, parts)


def _change_metrics(instance: Instance, change: str) -> None:
    init, parts = _init(instance), prepare(instance.cache)
    if change == "add":
        metrics_server.add(instance, init, parts)
    else:
        metrics_server.remove(instance, parts)


def _change_node(instance: Instance, arguments: argparse.Namespace) -> None:
    init, name = _init(instance), arguments.name
    match arguments.node_command:
        case "add":
            node = next_node(instance, name)
            added_node.add(node, init, prepare(instance.cache), _inventory(arguments))
        case "remove":
            added_node.remove(find_added(instance, name), init, prepare(instance.cache))
        case "cut":
            node_link.set_state(find_added(instance, name), init, "down")
        case "heal":
            node_link.set_state(find_added(instance, name), init, "up")


def _inventory(arguments: argparse.Namespace) -> inventory.Inventory:
    return inventory.from_file(arguments.inventory) if arguments.inventory else inventory.DEFAULT


def _init(instance: Instance) -> int:
    init = namespaces.find_init(first(instance))
    if init is None:
        raise ClusterError("the cluster is not up: run `python -m workslice_cluster up`")
    return init


if __name__ == "__main__":
    sys.exit(main())
