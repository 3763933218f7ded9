"""A hand-made Kubernetes API in memory for the shell's tests: fulfils kube_api.Kube, records every write, fails on demand."""

import copy
from collections.abc import Mapping
from typing import Any

from workslice_operator.kube_api import Conflict, KubeError, NotFound, Object, Resource


class FakeKube:
    def __init__(self, *objects: Object) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.writes: list[tuple[str, str, str]] = []
        """(verb, kind, name) in order."""
        self.failures: dict[tuple[str, str], KubeError] = {}
        """(verb, kind) → error to raise."""
        self.logs: dict[tuple[str, bool], str] = {}
        """(name of the pod, whether of the container before) → log."""
        self.reads = 0
        self.version = 0
        self.kinds = frozenset({"workspacepools", "workspaceprofiles"})
        for one in objects:
            self.put(one)

    def put(self, manifest: Mapping[str, Any]) -> Object:
        stored = copy.deepcopy(dict(manifest))
        metadata = stored["metadata"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        metadata.setdefault("uid", f"uid-{self.version}")
        self.objects[stored["kind"], metadata.get("namespace", ""), metadata["name"]] = stored
        return stored

    def remove(self, kind: str, namespace: str, name: str) -> None:
        del self.objects[kind, namespace, name]

    def written(self, kind: str) -> list[str]:
        return [verb for verb, of, _ in self.writes if of == kind]

    async def served(self, api_version: str) -> frozenset[str]:
        self._fail("served", "")
        return self.kinds

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        self.reads += 1
        self._fail("get", resource.kind)
        return copy.deepcopy(self.objects.get((resource.kind, namespace, name)))

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        self.reads += 1
        self._fail("list", resource.kind)
        wanted = dict(pair.partition("=")[::2] for pair in labels.split(",") if pair)
        return [
            copy.deepcopy(one)
            for (kind, where, _), one in self.objects.items()
            if kind == resource.kind
            and where in (namespace or where,)
            and wanted.items() <= (one["metadata"].get("labels") or {}).items()
        ]

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        return self._write("apply", resource, manifest, {**self._stored(resource, manifest), **manifest})

    async def dry_apply(self, resource: Resource, manifest: Mapping[str, Any], manager: str = "") -> Object:
        self._fail("dry-apply", resource.kind)
        stored = self._stored(resource, manifest)
        metadata = {"uid": "made-up", **stored.get("metadata", {}), **manifest["metadata"]}
        spec = {**stored.get("spec", {}), **manifest["spec"]}  # what others set stays
        return copy.deepcopy({**stored, **manifest, "metadata": metadata, "spec": spec})

    async def apply_status(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        stored = self._stored(resource, manifest)
        if not stored:
            raise NotFound(404, "not found")
        if stored["metadata"]["uid"] != manifest["metadata"]["uid"]:
            raise Conflict(409, "uid mismatch")
        metadata = stored["metadata"]
        return self._write("status", resource, manifest, {**stored, "metadata": metadata, "status": manifest["status"]})

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        if self._stored(resource, manifest):
            raise Conflict(409, "already exists")
        return self._write("create", resource, manifest, manifest)

    async def replace(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        stored = self._stored(resource, manifest)
        if not stored:
            raise NotFound(404, "not found")
        if stored["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise Conflict(409, "the object has been modified")
        return self._write("replace", resource, manifest, manifest)

    async def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        manifest = {"metadata": {"namespace": namespace, "name": name}}
        stored = self._stored(resource, manifest)
        metadata = {**stored.get("metadata", {}), **manifest["metadata"], **patch.get("metadata", {})}
        if stored and metadata.get("uid") != stored["metadata"].get("uid"):
            raise Conflict(409, "uid mismatch")
        annotations = {**stored.get("metadata", {}).get("annotations", {}), **metadata.get("annotations", {})}
        metadata["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        self._write("patch", resource, manifest, {**stored, **patch, "metadata": metadata})

    async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        self.reads += 1
        self._fail("log", "Pod")
        return self.logs.get((pod, previous), "")

    def _stored(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        metadata = manifest["metadata"]
        return self.objects.get((resource.kind, metadata.get("namespace", ""), metadata["name"]), {})

    def _write(self, verb: str, resource: Resource, manifest: Mapping[str, Any], after: Mapping[str, Any]) -> Object:
        self._fail(verb, resource.kind)
        self.writes.append((verb, resource.kind, manifest["metadata"]["name"]))
        stored = self._stored(resource, manifest)
        metadata = {**stored.get("metadata", {}), **after["metadata"]}
        unchanged = stored and {**after, "metadata": metadata} == stored
        return stored if unchanged else copy.deepcopy(self.put({**after, "metadata": metadata}))

    def _fail(self, verb: str, kind: str) -> None:
        error = self.failures.get((verb, kind)) or self.failures.get((verb, "*"))
        if error is not None:
            raise error
