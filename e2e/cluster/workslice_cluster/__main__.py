"""Command line of the embedded cluster."""

import argparse
import os
import sys
from pathlib import Path

from workslice_cluster import device_health, image_import, inventory, leftovers, namespaces
from workslice_cluster.bring_up import bring_up
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.cluster_lock import cluster_lock
from workslice_cluster.instance import Instance, from_environment
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
    commands.add_parser("down", help="stop the cluster and leave nothing behind but its logs")
    commands.add_parser("status", help="say how every part is")
    load = commands.add_parser("load", help="import OCI archives of images")
    load.add_argument("archives", type=Path, nargs="+", metavar="FILE")
    health = commands.add_parser("health", help="make a device fail or recover")
    health.add_argument("device", metavar="DEVICE_ID")
    health.add_argument("state", choices=[device_health.HEALTHY, device_health.UNHEALTHY])
    for tool in ("kubectl", "helm"):
        passed = commands.add_parser(tool, help=f"run {tool} against the cluster", add_help=False, prefix_chars="\0")
        passed.add_argument("words", nargs=argparse.REMAINDER)
    return parser


def _run(arguments: argparse.Namespace, instance: Instance) -> int:
    match arguments.command:
        case "prepare":
            prepare(instance.cache)
            say("everything is there")
        case "up":
            wanted = inventory.DEFAULT
            if arguments.inventory:
                wanted = inventory.from_file(arguments.inventory)
            with cluster_lock(instance):
                bring_up(instance, prepare(instance.cache), wanted)
        case "down":
            with cluster_lock(instance), step("stopping the cluster"):
                leftovers.remove(instance)
        case "status":
            init = _init(instance)
            well, text = status_report(instance, init, prepare(instance.cache))
            print(text)
            return 0 if well else 1
        case "load":
            init = _init(instance)
            for archive in arguments.archives:
                with step(f"loading {archive}"):
                    for name in image_import.load(init, archive):
                        say(f"  {name}")
        case "health":
            device_health.write(instance.state, arguments.device, arguments.state)
        case tool:
            _init(instance)
            program = getattr(prepare(instance.cache), tool)
            no_proxy = {"NO_PROXY": "*", "no_proxy": "*"}
            environment = {**os.environ, **no_proxy, "KUBECONFIG": str(instance.kubeconfig)}
            os.execve(program, [tool, *arguments.words], environment)
    return 0


def _init(instance: Instance) -> int:
    init = namespaces.find_init(instance.state)
    if init is None:
        raise ClusterError("the cluster is not up: run `python -m workslice_cluster up`")
    return init


if __name__ == "__main__":
    sys.exit(main())
