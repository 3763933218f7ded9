"""What a daemon of the cluster is: how it starts, and where it says that it is well."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workslice_cluster.node import Node


@dataclass(frozen=True)
class Component:
    """One daemon of a node. `health` is a URL that the host can reach, or None when being alive is all that can be asked."""

    kind: str
    node: Node
    argv: tuple[str, ...]
    health: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: float = 60  # seconds from start to healthy, on a busy machine

    @property
    def name(self) -> str:
        """Name in the cluster: several nodes have daemons of the same kind."""
        return self.node.own(self.kind)

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.node.instance.log / f"{self.name}.log"
