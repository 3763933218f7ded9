"""Which pools and profiles YAML files declare. Pure: texts in, models out."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from workslice_api.names import GROUP, POOL_KIND, PROFILE_KIND
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.resource_faults import MODELS, resource_faults

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Undeclarable(Exception):
    """The files cannot be used; one line per fault, each with its file."""


@dataclass(frozen=True)
class Declared:
    """What the files hold."""

    pools: tuple[WorkspacePool, ...]
    profiles: Mapping[str, WorkspaceProfile]
    """By name."""
    raw: tuple[Mapping[str, Any], ...]
    """The same objects as they are written, namespaces filled in; profiles come first."""
    skipped: tuple[str, ...] = ()
    """Objects of other kinds, for a note."""


def declared(texts: Iterable[tuple[str, str]], namespace: str) -> Declared:
    """Read files, given as (name, text); `namespace` is that of pools which name none.

    Raises:
        Undeclarable: a file is no YAML, an object is not what the API server takes, or two have one name.
    """
    faults: list[str] = []
    skipped: list[str] = []
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for origin, raw in _documents(texts, faults):
        name = f"{raw.get('kind')} {_metadata(raw).get('name', '')}".strip()
        if str(raw.get("kind")) not in MODELS:
            if str(raw.get("apiVersion", "")).startswith(f"{GROUP}/"):
                faults.append(f"{origin}: {GROUP} has no kind {raw.get('kind')}: write {PROFILE_KIND} or {POOL_KIND}")
            else:
                skipped.append(f"{origin}: {name} is not Workslice's and is left out")
            continue
        whole = _in_namespace(raw, namespace) if raw["kind"] == POOL_KIND else raw
        wrong = [*_namespace_faults(whole), *resource_faults(whole)]
        faults += [f"{origin}: {name}: {fault}" for fault in wrong]
        key = (raw["kind"], str(_metadata(whole).get("namespace", "")), str(_metadata(raw).get("name")))
        if key in found:
            faults.append(f"{origin}: {name} is there twice: leave one of them out")
        if not wrong:
            found[key] = whole
    if not faults and not found:
        faults.append(f"the files hold no {POOL_KIND} and no {PROFILE_KIND}")
    if faults:
        raise Undeclarable("\n".join(faults))
    raws = tuple(sorted(found.values(), key=lambda one: one["kind"] == POOL_KIND))
    pools = tuple(WorkspacePool.model_validate(one) for one in raws if one["kind"] == POOL_KIND)
    profiles = [WorkspaceProfile.model_validate(one) for one in raws if one["kind"] == PROFILE_KIND]
    return Declared(pools, {one.metadata.name: one for one in profiles}, raws, tuple(skipped))


def is_namespace(name: str) -> bool:
    """Whether a namespace may have that name."""
    return _NAMESPACE.fullmatch(name) is not None


def objects_of_kind(texts: Iterable[tuple[str, str]], kind: str) -> list[Mapping[str, Any]]:
    """All objects of that kind in the files; raises Undeclarable when one is no YAML."""
    faults: list[str] = []
    found = [raw for _, raw in _documents(texts, faults) if raw.get("kind") == kind]
    if faults:
        raise Undeclarable("\n".join(faults))
    return found


def _documents(texts: Iterable[tuple[str, str]], faults: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, text in texts:
        try:
            documents = list(yaml.safe_load_all(text))
        except RecursionError:
            faults.append(f"{name}: not YAML: it is nested too deeply")
            continue
        except (
            yaml.YAMLError,
            ValueError,
        ) as error:  # ValueError: no day of the calendar, a number of thousands of digits
            faults.append(f"{name}: not YAML: {' '.join(str(error).split())}")
            continue
        for number, document in enumerate(documents, start=1):
            origin = name if len(documents) == 1 else f"{name}, document {number}"
            for one in document["items"] if _is_list(document) else [document]:
                if isinstance(one, Mapping):
                    yield origin, one
                elif one is not None:
                    faults.append(f"{origin}: not a Kubernetes object: {str(one)[:60]!r}")


def _is_list(document: Any) -> bool:
    return isinstance(document, Mapping) and document.get("kind") == "List" and isinstance(document.get("items"), list)


def _metadata(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = raw.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _namespace_faults(raw: Mapping[str, Any]) -> Iterator[str]:
    """The schema says nothing of metadata; a profile is in no namespace."""
    name = _metadata(raw).get("namespace")
    if raw["kind"] == POOL_KIND and isinstance(name, str) and not is_namespace(name):
        yield f"metadata.namespace: {name!r} is no name of a namespace"


def _in_namespace(raw: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    return {**raw, "metadata": {"namespace": namespace, **_metadata(raw)}}
