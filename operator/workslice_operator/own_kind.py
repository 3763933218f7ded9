"""Pools or profiles, as kopf's watch tells of them and as a resync lists them: kopf does not tell what went while it was not watching."""

from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import KubeWatch, Object, Resource
from workslice_operator.list_anew import list_anew
from workslice_operator.object_store import Name, ObjectStore


class OwnKind:
    """One of the two kinds."""

    def __init__(self, kube: KubeWatch, resource: Resource) -> None:
        self._kube = kube
        self._resource = resource
        self.store = ObjectStore(KEPT[resource])
        self.fresh = False
        """All of them have been listed once."""

    def told(self, raw: Object, there: bool) -> None:
        """An event of the watch."""
        if there:
            self.store.put(raw)
        else:
            self.store.remove(raw)

    async def listed(self) -> set[Name]:
        """Namespaces and names of all of them, from the API; raises KubeError."""
        present, _ = await list_anew(self.store, self._kube, self._resource)
        self.fresh = True
        return present
