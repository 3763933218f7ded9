"""The cluster's slices, counted along with every change of a node or a pod instead of anew from all of them. No I/O."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from workslice_operator.kube_api import Object
from workslice_operator.slice_inventory import NodeSlices, SliceInventory, awaited_slices, holds_slices, node_slices


class WatchedSlices:
    """What `slice_inventory` would say of all nodes and pods that were seen."""

    def __init__(self, cordons_changed: Callable[[frozenset[str]], None]) -> None:
        """`cordons_changed` gets the names of the cordoned nodes when they are others."""
        self._cordons_changed = cordons_changed
        self._nodes: dict[str, NodeSlices] = {}
        self._memories: dict[tuple[str, tuple[str, ...]], Mapping[str, int]] = {}
        self._used: dict[str, Counter[str]] = {}
        self._holders: dict[str, tuple[str, Counter[str]]] = {}
        """UID of a pod → its node and its slices."""
        self._waiting: dict[str, Counter[str]] = {}
        """UID of a pod without a node → the slices that it waits for."""
        self._awaited: Counter[str] = Counter()
        """Those of all of them together."""
        self._outdated: set[str] = set()
        """Nodes whose pods have changed since they were counted last."""
        self._inventory: SliceInventory | None = None

    def pod_changed(self, raw: Object, there: bool) -> None:
        """A pod was seen, or is gone."""
        uid = raw["metadata"]["uid"]
        self._pod_waits(uid, awaited_slices(raw) if there else Counter())
        before = self._holders.get(uid)
        now = holds_slices(raw) if there else None
        if before == now:
            return
        for one, sign in ((before, -1), (now, 1)):
            if one is not None:
                node, slices = one
                used = self._used.setdefault(node, Counter())
                for name, count in slices.items():
                    used[name] += sign * count
                self._used[node] = +used
                self._outdated.add(node)
        if now is None:
            del self._holders[uid]
        else:
            self._holders[uid] = now
        self._inventory = None

    def _pod_waits(self, uid: str, now: Counter[str]) -> None:
        before = self._waiting.pop(uid, Counter())
        if now:
            self._waiting[uid] = now
        if before == now:
            return
        self._awaited.update(now)
        self._awaited.subtract(before)
        self._awaited = +self._awaited
        self._inventory = None

    def node_changed(self, raw: Object, there: bool) -> None:
        """A node was seen, or is gone."""
        name, before = raw["metadata"]["name"], self.cordoned
        if there:
            self._nodes[name] = node_slices(raw, Counter())
            self._outdated.add(name)
        else:
            self._nodes.pop(name, None)
        self._memories, self._inventory = {}, None
        if self.cordoned != before:
            self._cordons_changed(self.cordoned)

    @property
    def cordoned(self) -> frozenset[str]:
        """Names of the nodes that take no new pods."""
        return frozenset(name for name, one in self._nodes.items() if one.cordoned)

    def inventory(self) -> SliceInventory:
        """As of now."""
        if self._inventory is None:
            for name in self._outdated & self._nodes.keys():
                used = dict(sorted(self._used.get(name, Counter()).items()))
                self._nodes[name] = replace(self._nodes[name], used=used)
            self._outdated.clear()
            nodes, waiting = sorted(self._nodes.items()), dict(sorted(self._awaited.items()))
            self._inventory = SliceInventory(tuple(one for _, one in nodes), waiting, self._memories)
        return self._inventory
