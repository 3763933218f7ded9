"""Says how a cluster is: every daemon, the node, its slices, and how to reach it."""

from workslice_cluster import components, inventory, node_view, processes
from workslice_cluster.health import answers_well
from workslice_cluster.image_import import containerd_answers
from workslice_cluster.instance import Instance
from workslice_cluster.prepare import Parts


def status_report(instance: Instance, init: int, parts: Parts) -> tuple[bool, str]:
    """Return whether all is well in the cluster that this init holds, and the text to show."""
    running = processes.of_cluster(instance.state)
    all_well, lines = True, []
    for component in components.table(instance, parts.binaries):
        process = processes.component(running, component.name, component.argv[0])
        if process is None:
            state = f"dead: `up` starts it again; see {instance.log}/{component.name}.log"
        elif not (answers_well(component.health) if component.health else containerd_answers(init)):
            state = f"alive (PID {process.pid}) but not well: see {instance.log}/{component.name}.log"
        else:
            lines.append(f"{component.name:<24} well (PID {process.pid})")
            continue
        all_well = False
        lines.append(f"{component.name:<24} {state}")
    node = node_view.node(instance, parts.kubectl)
    if node is None:
        return False, "\n".join([*lines, f"{'node':<24} the API server does not show it"])
    ready = node_view.is_ready(node)
    lines.append(f"{'node ' + instance.node_name:<24} {'Ready' if ready else 'not ready'}")
    offered = node_view.allocatable(node)
    for part in inventory.read(instance.state).slices:
        lines.append(f"  {part.resource:<30} {offered.get(part.resource, 0)} healthy of {part.count}")
    lines.append(f"export KUBECONFIG={instance.kubeconfig}")
    return all_well and ready, "\n".join(lines)
