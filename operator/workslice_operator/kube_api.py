"""What the operator asks of a Kubernetes API: resources, errors and the Protocol that `kube.py` fulfils. No I/O here."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from workslice_api import names

Object = dict[str, Any]
"""A raw API object."""


@dataclass(frozen=True)
class Resource:
    """One kind of object and where the API serves it."""

    api_version: str
    kind: str
    plural: str

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path of the collection, of one object or of its subresource; without a namespace, of all namespaces."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        rest = "".join(f"/{part}" for part in (self.plural, name, subresource) if part)
        return root + scope + rest


POOLS: Final = Resource(names.API_VERSION, names.POOL_KIND, names.POOL_PLURAL)
PROFILES: Final = Resource(names.API_VERSION, names.PROFILE_KIND, names.PROFILE_PLURAL)
DEPLOYMENTS: Final = Resource("apps/v1", "Deployment", "deployments")
REPLICA_SETS: Final = Resource("apps/v1", "ReplicaSet", "replicasets")
SERVICES: Final = Resource("v1", "Service", "services")
DISRUPTION_BUDGETS: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICIES: Final = Resource("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
PODS: Final = Resource("v1", "Pod", "pods")
NODES: Final = Resource("v1", "Node", "nodes")
CLAIMS: Final = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENTS: Final = Resource("v1", "Event", "events")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
LEASES: Final = Resource("coordination.k8s.io/v1", "Lease", "leases")

CHILDREN: Final = (DEPLOYMENTS, SERVICES, DISRUPTION_BUDGETS, NETWORK_POLICIES)
"""Kinds of object that a pool owns; the operator watches them by label and applies them."""
CHILD_RESOURCES: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in CHILDREN}


LOG_BYTES: Final = 4 * 1024 * 1024


class KubeError(Exception):
    """A request that the API did not fulfil; `message` is the API's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class NotFound(KubeError):
    """404: the object or the whole kind does not exist."""


class Conflict(KubeError):
    """409: it exists already, or changed since it was read."""


class Gone(KubeError):
    """410: the version to go on from is too old; list anew."""


class Refused(KubeError):
    """400, 403, 405, 413, 415, 422: repeating the same request will not help; a person must change something."""


class NamespaceGoing(Refused):
    """403: the namespace is being deleted and takes nothing new."""


class Unavailable(KubeError):
    """The API is away, overloaded or does not know us (yet): try again later."""


def error_of(status: int, message: str, causes: Iterable[str] = ()) -> KubeError:
    """The error for an HTTP status and the causes that the API's Status object names."""
    if "NamespaceTerminating" in causes:
        return NamespaceGoing(status, message)
    kinds: dict[int, type[KubeError]] = {404: NotFound, 409: Conflict, 410: Gone}
    # What cannot be merged (two volumes of one name, text where an object belongs) is answered with 500, though no retry heals it.
    unmergeable = status == 500 and message.startswith("failed to create typed patch object")
    refused = unmergeable or status in (400, 403, 405, 413, 415, 422)
    return kinds.get(status, Refused if refused else Unavailable)(status, message)


@dataclass(frozen=True)
class Credentials:
    """How to reach the API, for a second client in this process (kopf's)."""

    server: str
    ca_file: str | None
    verify: bool
    authorization: str | None
    """Value of the Authorization header."""
    certificate_file: str | None
    key_file: str | None


class KubeWatch(Protocol):
    """A Kubernetes API whose objects can be followed. Every method raises KubeError."""

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        """The part of the list of all objects that match the selector behind `token`, raw: `items`, and in `metadata` the version of
        the list and the next token in `continue`.
        """

    def watch(
        self, resource: Resource, labels: str, version: str
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, Object]]]:
        """Type and object of every change after a version, until the API ends it. It is being followed once the context is entered."""


class Reads(Protocol):
    """Looks into a Kubernetes API. Every method raises KubeError and none takes longer than its request timeout."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """The object, or None when it does not exist; cluster-scoped kinds take an empty namespace."""

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """All objects (of all namespaces when none is given) that match both selectors."""


class Kube(Reads, Protocol):
    """A Kubernetes API. Every method raises KubeError and none takes longer than its request timeout."""

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """Server-side apply, taking over fields that others hold; returns the object as stored."""

    async def apply_status(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """Server-side apply of `status`; what is no longer in it is removed. Never creates the object; returns it as stored."""

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """Create; raises Conflict when it exists."""

    async def replace(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """Replace the version that was read; raises Conflict when it changed since."""

    async def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """JSON merge patch."""

    async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        """The end of a container's log, or with `previous` of the one that it replaced; at most LOG_BYTES, in fewer lines if need be."""
