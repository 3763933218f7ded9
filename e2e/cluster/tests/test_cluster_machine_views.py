"""What the tool reads out of the machine's own tables."""

from pathlib import Path

from workslice_cluster import mounts
from workslice_cluster.control_groups import existing, hierarchies
from workslice_cluster.instance import Instance
from workslice_cluster.leftovers import mounts_below
from workslice_cluster.network import conflicting_routes
from workslice_cluster.node import Node, first
from workslice_cluster.processes import COMPONENT_MARK, Process, component

ONE = Instance(0, Path("/cache"), Path("/cache/cluster"))
MOUNTINFO = """\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
31 22 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
32 22 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
40 22 0:40 / /cache/cluster/kubelet rw - tmpfs tmpfs rw
41 40 0:41 / /cache/cluster/kubelet/a\\040b rw - tmpfs tmpfs rw
42 22 0:42 / /cache/cluster-1/kubelet rw - tmpfs tmpfs rw
"""


def test_both_versions_of_control_groups_are_told_apart() -> None:
    version_1, version_2 = hierarchies(MOUNTINFO)
    assert version_1 == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/memory")]
    assert version_2 == [Path("/sys/fs/cgroup/unified")]


def test_a_cluster_that_was_never_made_has_no_control_groups() -> None:
    assert existing("workslice-never-made") == []


def test_mounts_of_the_state_folder_are_found_innermost_first_and_no_others() -> None:
    assert mounts_below(MOUNTINFO, ONE.state) == ["/cache/cluster/kubelet/a b", "/cache/cluster/kubelet"]


def test_a_route_of_the_machine_that_overlaps_is_a_conflict() -> None:
    routes = [{"dst": "default", "dev": "eth0"}, {"dst": "10.0.0.0/8", "dev": "vpn0"}, {"dst": "192.168.0.0/16"}]
    assert conflicting_routes(routes, ONE) == ["10.0.0.0/8 dev vpn0"]


def test_the_clusters_own_routes_are_no_conflict() -> None:
    assert conflicting_routes([{"dst": "10.90.0.0/24", "dev": ONE.link}], ONE) == []


def test_routes_of_a_neighbour_cluster_are_no_conflict() -> None:
    neighbour = Instance(1, Path("/cache"), Path("/cache/cluster-1"))
    routes = [{"dst": network, "dev": neighbour.link} for network in neighbour.host_networks]
    assert conflicting_routes(routes, ONE) == []


def test_a_child_that_inherited_the_mark_is_not_taken_for_the_daemon() -> None:
    shim = Process(1, ("/usr/bin/containerd-shim-runc-v2",), {COMPONENT_MARK: "containerd"}, ())
    daemon = Process(2, ("/usr/bin/containerd", "--config", "x"), {COMPONENT_MARK: "containerd"}, ())
    assert component([shim, daemon], "containerd", "/usr/bin/containerd") == daemon
    assert component([shim], "containerd", "/usr/bin/containerd") is None


def test_settings_of_the_whole_machine_are_covered_by_files() -> None:
    text = mounts.script(first(ONE))
    for setting in ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"):
        assert f"mount --bind /run/kernel-settings/{setting.replace('/', '.')} /proc/sys/{setting}" in text


def test_an_added_node_lets_go_of_what_the_first_one_mounted_before_it_mounts_its_own() -> None:
    lines = mounts.script(Node(ONE, 1, "second")).splitlines()
    for path in ("/run", *mounts.DATA_FOLDERS):
        assert lines.index(f"umount --recursive --lazy {path}") < next(
            place for place, line in enumerate(lines) if line.startswith("mount ") and line.endswith(f" {path}")
        )
