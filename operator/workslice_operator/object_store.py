"""The objects of one kind, as a watch tells of them: small, since a cluster has many. No I/O.

Kept as JSON text that is compressed after the first object of the kind, to which all are alike: a fiftieth of what the same objects take
as dictionaries, and read only for the one pool that is looked at.
"""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import orjson

from workslice_api import deep_json
from workslice_api.names import MANAGED_BY, MANAGED_BY_LABEL, POOL_LABEL
from workslice_operator.kube_api import Object

Name = tuple[str, str]
"""Namespace and name."""
Version = tuple[str, int]
"""UID and resourceVersion."""


_WINDOW: Final = -15
"""Raw deflate; what lies further back than 32 KiB is not found."""


@dataclass(frozen=True, slots=True)
class _Stored:
    uid: str
    version: int
    content: bytes
    pool: str
    """See pool_of."""


class ObjectStore:
    """By name and, where they carry its label, by pool."""

    def __init__(
        self, keep: Callable[[Object], Object], changed: Callable[[Object, bool], None] = lambda raw, there: None
    ) -> None:
        """`keep` gives what is kept of a raw object; its resourceVersion is kept in any case and counts for no change.

        `changed` gets each object that is new, changed in what is kept of it, or gone, be it only from its pool (then with False), whoever
        changes the store: so what is counted along with it is always what it holds.
        """
        self._keep = keep
        self._changed = changed
        self._objects: dict[Name, _Stored] = {}
        self._of_pool: dict[Name, set[str]] = {}
        self._like = b""
        """Text of the first object: what others have in common with it takes no place."""
        self._told: dict[Name, int] | None = None
        """While all objects are listed: the newest version that was told of each meanwhile, its deletion included."""

    def __len__(self) -> int:
        return len(self._objects)

    def put(self, raw: Object) -> bool:
        """Store what is not older than what is there, be it another object of that name; returns whether anything that is kept of it has
        changed.
        """
        name, version = name_of(raw), _version(raw)
        before = self._objects.get(name)
        if before is not None and version < before.version:
            return False
        self._note(name, version)
        return self._replace(raw)

    @contextmanager
    def listing(self) -> Iterator[Callable[[Object], bool]]:
        """Open it before all objects are asked for, one at a time: it gives what stores an item of the answer and returns as `put`.

        An item replaces what was there before, even a newer version, which etcd no longer has after a restore; but nothing that was told
        meanwhile, and what was told to be gone does not come back.
        """
        told = self._told = {}

        def take(raw: Object) -> bool:
            return _version(raw) > told.get(name_of(raw), -1) and self._replace(raw)

        try:
            yield take
        finally:
            self._told = None

    def _note(self, name: Name, version: int) -> None:
        if self._told is not None:
            self._told[name] = max(version, self._told.get(name, 0))

    def _replace(self, raw: Object) -> bool:
        name, uid = name_of(raw), raw["metadata"].get("uid", "")
        before = self._objects.get(name)
        content = self._packed(deep_json.dumps(self._keep(raw)))
        name = sys.intern(name[0]), name[1]
        pool = sys.intern(pool_of(raw))
        self._forget(name)
        self._objects[name] = _Stored(uid, _version(raw), content, pool)
        if pool:
            self._of_pool.setdefault((name[0], pool), set()).add(name[1])
        if before is not None and before.content == content:
            return False
        if before is not None and (before.uid, before.pool) != (uid, pool):
            self._changed(self._unpacked(before.content), False)
        self._changed(raw, True)
        return True

    def update(self, raw: Object) -> None:
        """As `put`, but for something that is there: what has been deleted meanwhile must not come back."""
        stored = self._objects.get(name_of(raw))
        if stored is not None and stored.uid == raw["metadata"].get("uid", ""):
            self.put(raw)

    def remove(self, raw: Object) -> bool:
        """The object is gone; returns whether it was there."""
        name = name_of(raw)
        before = self._objects.get(name)
        self._note(name, _version(raw))
        if before is None or before.uid != raw["metadata"].get("uid", "") or _version(raw) < before.version:
            return False
        self.drop(name)
        return True

    def absent(self, present: Iterable[Name]) -> list[Object]:
        """What is stored and not among `present`: it was deleted while nobody watched. It stays until it is removed."""
        gone = self._objects.keys() - set(present)
        return [self._unpacked(self._objects[name].content) for name in sorted(gone)]

    def versions(self) -> dict[Name, Version]:
        """Of every object that is there."""
        return {name: (one.uid, one.version) for name, one in self._objects.items()}

    def uids(self) -> dict[Name, str]:
        """Of every object that is there."""
        return {name: one.uid for name, one in self._objects.items()}

    def drop(self, name: Name) -> None:
        """Forget one, whatever its version."""
        before = self._forget(name)
        if before is not None:
            self._changed(self._unpacked(before.content), False)

    def get(self, namespace: str, name: str) -> Object | None:
        """What is kept of an object; None when there is none."""
        stored = self._objects.get((namespace, name))
        return None if stored is None else self._read(stored)

    def of_pool(self, namespace: str, pool: str) -> list[Object]:
        """What is kept of the objects that are a pool's."""
        names = self._of_pool.get((namespace, pool), ())
        return [self._read(self._objects[namespace, name]) for name in names]

    def all(self) -> list[Object]:
        """What is kept of all objects."""
        return [self._read(one) for one in self._objects.values()]

    def _read(self, stored: _Stored) -> Object:
        document = self._unpacked(stored.content)
        document["metadata"]["resourceVersion"] = str(stored.version)
        return document

    def _forget(self, name: Name) -> _Stored | None:
        before = self._objects.pop(name, None)
        if before is not None and before.pool:
            names = self._of_pool[name[0], before.pool]
            names.discard(name[1])
            if not names:
                del self._of_pool[name[0], before.pool]
        return before

    def _packed(self, text: bytes) -> bytes:
        self._like = self._like or text
        packer = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, zdict=self._like)
        return packer.compress(text) + packer.flush()

    def _unpacked(self, content: bytes) -> Object:
        document: Object = orjson.loads(zlib.decompressobj(_WINDOW, self._like).decompress(content))
        return document


def name_of(raw: Object) -> Name:
    """Of a raw object; the namespace is empty where the kind has none."""
    metadata = raw["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def pool_of(raw: Object) -> str:
    """Name of the pool that a raw object is of, as its labels say; empty when it is of none."""
    labels = raw["metadata"].get("labels") or {}
    return str(labels.get(POOL_LABEL, "")) if labels.get(MANAGED_BY_LABEL) == MANAGED_BY else ""


def _version(raw: Object) -> int:
    """Versions of one kind can be compared as numbers."""
    return int(raw["metadata"].get("resourceVersion") or 0)
