"""Pools or profiles, as kopf's watch tells of them and as a resync lists them: kopf does not tell what went while it was not watching."""

from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import Object, Reads, Resource
from workslice_operator.object_store import ObjectStore


class OwnKind:
    """One of the two kinds."""

    def __init__(self, kube: Reads, resource: Resource) -> None:
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

    async def listed(self) -> list[Object]:
        """All of them, from the API; raises KubeError."""
        before = self.store.uids()
        raws = await self._kube.list(self._resource)
        for raw in raws:
            self.store.put(raw)
        present = {(one["metadata"].get("namespace", ""), one["metadata"]["name"]) for one in raws}
        for name, uid in before.items():
            if name not in present and self.store.uids().get(name) == uid:  # else it was made while the API answered
                self.store.drop(name)
        self.fresh = True
        return raws
