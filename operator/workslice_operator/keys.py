"""What the operator's queue holds: the identity of one object to reconcile."""

from typing import NamedTuple

from workslice_api.names import POOL_KIND, PROFILE_KIND


class Key(NamedTuple):
    """A pool or a profile."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """`WorkspacePool shop/chat`, as logs show it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def pool_key(namespace: str, name: str) -> Key:
    """Key of a WorkspacePool."""
    return Key(POOL_KIND, namespace, name)


def profile_key(name: str) -> Key:
    """Key of a WorkspaceProfile."""
    return Key(PROFILE_KIND, "", name)
