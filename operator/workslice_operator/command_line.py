"""`python -m workslice_operator render|plan`: arguments, files and exit status. `render` needs no cluster, `plan` only reads."""

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from workslice_operator.crd_rules import RULES_ARE_CHECKED
from workslice_operator.declared import Declared, Undeclarable, declared, is_namespace, objects_of_kind
from workslice_operator.installation import installed_by_chart
from workslice_operator.kube import KubeUnconfigured, connect_kube
from workslice_operator.kube_api import KubeError
from workslice_operator.plan_command import NotPlanned, as_text, planned_changes, running_installation
from workslice_operator.render_command import rendered
from workslice_operator.settings import model_owners
from workslice_operator.slice_inventory import SliceInventory, slice_inventory

SAME: Final = 0
DIFFERENT: Final = 1
"""As `diff` and `kubectl diff` have it: something would change."""
FAILED: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit status is 2 when it failed, and 1 when `plan` finds a difference."""
    flags = _parser().parse_args(arguments)
    try:
        status = _render(flags) if flags.command == "render" else asyncio.run(_plan(flags))
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `plan | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more
    except (Undeclarable, NotPlanned, KubeUnconfigured, ValueError) as error:
        print(error, file=sys.stderr)
    except KubeError as error:
        print(f"the Kubernetes API: {error.message}", file=sys.stderr)
    except Exception:  # Python's own exit status, 1, would say that something would change
        traceback.print_exc()
        print("this is a fault of Workslice: please report it with the lines above", file=sys.stderr)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m workslice_operator", description="Shows what would be applied.")
    commands = parser.add_subparsers(dest="command", required=True)
    render = commands.add_parser("render", help="print what would be applied, without a cluster")
    plan = commands.add_parser("plan", help="show what would change in the cluster; exit status 1 when something would")
    for one in (render, plan):
        files_help = "YAML with pools and profiles, - for standard input; may be repeated"
        one.add_argument(
            "-f", "--filename", action="append", required=one is render, default=[], metavar="FILE", help=files_help
        )
        one.add_argument("-n", "--namespace", type=_namespace, default="default", help="of pools that name none")
    render.add_argument("--inventory", metavar="FILE", help="nodes (and pods): kubectl get nodes,pods -A -o yaml")
    system_help = "where the chart is installed"
    render.add_argument("--system-namespace", type=_namespace, default="workslice-system", help=system_help)
    render.add_argument("--release", default="workslice", help="name of the chart's release")
    render.add_argument("--model-owners", type=model_owners, default={}, metavar="JSON", help='{"model": "namespace"}')
    return parser


def _render(flags: argparse.Namespace) -> int:
    files = _read(flags)
    inventory = _inventory(flags.inventory) if flags.inventory else None
    installation = installed_by_chart(flags.system_namespace, flags.release)
    now = datetime.now(UTC).replace(microsecond=0)
    print(rendered(files, installation, flags.model_owners, inventory, now), end="")
    return SAME


async def _plan(flags: argparse.Namespace) -> int:
    files = _read(flags) if flags.filename else None
    async with connect_kube() as kube:
        found = await running_installation(kube)
        if found is None:
            _note("no operator runs in this cluster: NetworkPolicies are planned for a default installation")
        installation, owners = found or (installed_by_chart("workslice-system", "workslice"), {})
        plans = await planned_changes(kube, files, installation, owners, datetime.now(UTC).replace(microsecond=0))
    print(as_text(plans), end="")
    return DIFFERENT if any(one.differences for one in plans) else SAME


def _read(flags: argparse.Namespace) -> Declared:
    if flags.command == "render" and not RULES_ARE_CHECKED:
        _note("the rules of the CRDs are checked with the extra `render` only; the API server checks them in any case")
    files = declared([_text(name) for name in flags.filename], flags.namespace)
    for line in files.skipped:
        _note(line)
    return files


def _inventory(name: str) -> SliceInventory:
    texts = [_text(name)]
    nodes = objects_of_kind(texts, "Node")
    if not nodes:
        raise Undeclarable(f"{name}: there is no Node in it: kubectl get nodes,pods -A -o yaml")
    try:
        return slice_inventory(nodes, objects_of_kind(texts, "Pod"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fault = f"{name}: not nodes and pods as the API has them ({error}): kubectl get nodes,pods -A -o yaml"
        raise Undeclarable(fault) from error


def _namespace(text: str) -> str:
    if not is_namespace(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a namespace")
    return text


def _text(name: str) -> tuple[str, str]:
    try:
        return (name, sys.stdin.read() if name == "-" else Path(name).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Undeclarable(f"{name}: {getattr(error, 'strerror', None) or error}") from error


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
