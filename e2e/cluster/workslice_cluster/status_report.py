"""Says how a cluster is: every daemon, the nodes, their slices, and how to reach it."""

from workslice_cluster import components, daemons, inventory, namespaces, node_link, node_view
from workslice_cluster.component import Component
from workslice_cluster.health import answers_well
from workslice_cluster.image_import import containerd_answers
from workslice_cluster.instance import Instance
from workslice_cluster.node import Node, added, first
from workslice_cluster.prepare import Parts


def status_report(instance: Instance, parts: Parts) -> tuple[bool, str]:
    """Return whether all is well in the cluster, and the text to show."""
    found = [_of_daemon(component) for component in components.table(instance, parts.binaries)]
    found += [_of_node(node, parts) for node in (first(instance), *added(instance))]
    lines = [*(text for _, text in found), f"export KUBECONFIG={instance.kubeconfig}"]
    return all(well for well, _ in found), "\n".join(lines)


def _of_daemon(component: Component) -> tuple[bool, str]:
    process = daemons.process_of(component)
    well = False
    if process is None:
        state = f"dead: `up` starts it again; see {component.log}"
    elif not _is_well(component):
        state = f"alive (PID {process.pid}) but not well: see {component.log}"
    else:
        well, state = True, f"well (PID {process.pid})"
    return well, f"{component.name:<24} {state}"


def _is_well(component: Component) -> bool:
    if component.kind == "containerd":
        init = namespaces.find_init(component.node)
        return init is not None and containerd_answers(init)
    return component.health is None or answers_well(component.health)


def _of_node(node: Node, parts: Parts) -> tuple[bool, str]:
    seen = node_view.node(node, parts.kubectl)
    if seen is None:
        return False, f"{'node ' + node.name:<24} the API server does not show it"
    ready = node_view.is_ready(seen)
    state = "Ready" if ready else "not ready"
    first_init = namespaces.find_init(first(node.instance))
    if not node.is_first and first_init and node_link.is_cut(node, first_init):
        ready, state = False, f"{state}, its link is cut"
    lines = [f"{'node ' + node.name:<24} {state}"]
    offered = node_view.allocatable(seen)
    for part in inventory.read(node.folder).slices:
        lines.append(f"  {part.resource:<30} {offered.get(part.resource, 0)} healthy of {part.count}")
    return ready, "\n".join(lines)
