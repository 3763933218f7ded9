"""Pools from a YAML file, for use without Kubernetes: the same specs as the API's objects, plus the replicas' addresses."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workslice_api.base import Name, ObjectMeta
from workslice_api.ownership import model_ownership
from workslice_api.pool import WorkspacePool, WorkspacePoolSpec
from workslice_api.profile import WorkspaceProfileSpec
from workslice_router.pool_spec import pool_spec
from workslice_router.routing_table import PoolSpec, ReplicaSpec, RoutingTable

DEFAULT_NAMESPACE: Final = "default"
_MOST_PROBLEMS_SHOWN: Final = 10
_HOST: Final = re.compile(r"[0-9A-Za-z:._-]+(%[0-9A-Za-z._-]+)?\Z")
"""A name or an IP address; an IPv6 address may have a zone."""


class StaticPoolsError(Exception):
    """The file cannot be used; the text says where and why."""


@dataclass(frozen=True)
class StaticPool:
    """A pool of the file with its replicas."""

    spec: PoolSpec
    replicas: tuple[ReplicaSpec, ...]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Profile(_Strict):
    name: Name
    spec: WorkspaceProfileSpec


class _Pool(_Strict):
    name: Name
    namespace: Name = DEFAULT_NAMESPACE
    spec: WorkspacePoolSpec
    replicas: Annotated[list[str], Field(min_length=1, max_length=1000)]


class _File(_Strict):
    profiles: Annotated[list[_Profile], Field(max_length=1000)] = []
    pools: Annotated[list[_Pool], Field(min_length=1, max_length=1000)]


def load_static_pools(path: Path) -> tuple[StaticPool, ...]:
    """Read and check a file of pools.

    Raises:
        StaticPoolsError: the file is unreadable, is not YAML, or says something that the API would refuse.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StaticPoolsError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StaticPoolsError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(document, dict):
        raise StaticPoolsError(f"{path} must be a mapping with the keys 'profiles' and 'pools'")
    _refuse_unknown_fields(path, document)
    try:
        file = _File.model_validate(document)
    except ValidationError as error:
        problems = [f"  {_place(one['loc'])}: {one['msg']}" for one in error.errors()[:_MOST_PROBLEMS_SHOWN]]
        raise StaticPoolsError(f"{path} is not valid:\n" + "\n".join(problems)) from None
    profiles = {profile.name: profile.spec for profile in file.profiles}
    pools: dict[str, StaticPool] = {}
    objects = []
    for one in file.pools:
        metadata = ObjectMeta(name=one.name, namespace=one.namespace, uid=f"{one.namespace}/{one.name}")
        pool = WorkspacePool(metadata=metadata, spec=one.spec)
        if pool.key in pools:
            raise StaticPoolsError(f"{path}: two pools are called {pool.key}: rename one")
        profile = profiles.get(one.spec.profile_ref.name)
        if profile is None:
            known = ", ".join(sorted(profiles)) or "none"
            raise StaticPoolsError(
                f"{path}: pool {pool.key} refers to profile '{one.spec.profile_ref.name}', which is not in the file (it has: {known})"
            )
        if one.spec.request_class.max_total_tokens > profile.workspace.max_tokens:
            raise StaticPoolsError(
                f"{path}: pool {pool.key}: requestClass.maxTotalTokens {one.spec.request_class.max_total_tokens} is larger than "
                f"workspace.maxTokens {profile.workspace.max_tokens} of profile '{one.spec.profile_ref.name}': lower it"
            )
        prompt_limit = one.spec.request_class.max_prompt_tokens
        if prompt_limit is not None and prompt_limit > one.spec.request_class.max_total_tokens:
            raise StaticPoolsError(
                f"{path}: pool {pool.key}: requestClass.maxPromptTokens {prompt_limit} is larger than requestClass.maxTotalTokens "
                f"{one.spec.request_class.max_total_tokens}, which counts the answer as well: lower it"
            )
        replicas = tuple(_replica(path, pool.key, address) for address in dict.fromkeys(one.replicas))
        pools[pool.key] = StaticPool(pool_spec(pool, profile), replicas)
        objects.append(pool)
    for key, conflict in model_ownership(objects, {}).conflicts.items():
        raise StaticPoolsError(
            f"{path}: pool {key} serves '{conflict.model}', which belongs to namespace '{conflict.owner_namespace}': "
            "pools of one model must be in one namespace"
        )
    return tuple(pools.values())


def apply_static_pools(table: RoutingTable, pools: tuple[StaticPool, ...]) -> None:
    """Make the table hold exactly these pools."""
    for key in [key for key in table.pools if key not in {pool.spec.key for pool in pools}]:
        table.remove_pool(key)
    for pool in pools:
        table.put_pool(pool.spec)
        table.put_replicas(pool.spec.key, pool.replicas)
    table.synced = True
    table.commit()


def _replica(path: Path, key: str, address: str) -> ReplicaSpec:
    host, separator, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not separator or not _HOST.match(host) or not port.isdecimal() or not 0 < int(port) < 65536:
        raise StaticPoolsError(f"{path}: replica '{address}' of pool {key} must be written host:port")
    return ReplicaSpec(uid=address, host=host, port=int(port))


def _refuse_unknown_fields(path: Path, document: Mapping[str, Any]) -> None:
    """The API's models ignore what they do not know, since API servers may be newer; in a file an unknown field is a typing error."""
    for kind, model in (("profiles", WorkspaceProfileSpec), ("pools", WorkspacePoolSpec)):
        listed = document.get(kind)
        for index, item in enumerate(listed if isinstance(listed, list) else ()):
            spec = item.get("spec") if isinstance(item, dict) else None
            if isinstance(spec, dict) and (unknown := _unknown_field(spec, model)):
                raise StaticPoolsError(f"{path}: {kind}[{index}].spec has no field '{unknown}': check its spelling")


def _unknown_field(value: Mapping[str, Any], model: type[BaseModel]) -> str | None:
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key not in fields:
            return str(key)
        for annotation in (fields[key], *get_args(fields[key])):  # `Model`, or the parts of `Model | None`
            if isinstance(annotation, type) and issubclass(annotation, BaseModel) and isinstance(inner, Mapping):
                deeper = _unknown_field(inner, annotation)
                if deeper is not None:
                    return f"{key}.{deeper}"
    return None


def _place(location: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
