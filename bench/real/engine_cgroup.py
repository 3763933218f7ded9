"""The control group of an engine's container on this machine: which core it may use, and the most memory that it took."""

from dataclasses import dataclass
from pathlib import Path

from host_processes import one_of_pod
from workslice_cluster.control_groups import hierarchies


@dataclass(frozen=True)
class EngineCgroup:
    """Folders of the container's group; one and the same in version 2."""

    cpuset: Path
    memory: Path

    def pin(self, core: int) -> None:
        """Let all its processes run on this core only."""
        (self.cpuset / "cpuset.cpus").write_text(str(core))

    def peak_mebibytes(self) -> float:
        """Most memory since the container's start, its part of the page cache included."""
        version_1, version_2 = self.memory / "memory.max_usage_in_bytes", self.memory / "memory.peak"
        return int((version_1 if version_1.exists() else version_2).read_text()) / 2**20


def cgroup_of_engine(pod_uid: str) -> EngineCgroup:
    """Find the group by a process of the pod's engine."""
    pid = one_of_pod(pod_uid, "serve_on_cpu").pid
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    by_controller = {
        name: path for line in lines for _, names, path in [line.split(":", 2)] for name in names.split(",")
    }
    version_1, version_2 = hierarchies(Path("/proc/self/mountinfo").read_text())

    def folder(controller: str) -> Path:
        found = by_controller.get(controller)
        roots = version_2 if found is None else [root for root in version_1 if controller in root.name.split(",")]
        return roots[0] / (found or by_controller[""]).lstrip("/")

    return EngineCgroup(folder("cpuset"), folder("memory"))
