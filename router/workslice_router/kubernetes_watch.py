"""Follows pools, profiles and EndpointSlices in the Kubernetes API and keeps the routing table current. The only user of httpx."""

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from workslice_api import deep_json
from workslice_api.names import GROUP, MANAGED_BY, MANAGED_BY_LABEL, VERSION
from workslice_router.cluster_view import ClusterView, Kind
from workslice_router.kubernetes_access import KubernetesAccess, kubernetes_access
from workslice_router.routing_table import RoutingTable

log = logging.getLogger(__name__)

_PAGE: Final = 200
_WATCH_SECONDS: Final = 290
_SILENCE: Final = 90.0
"""Seconds without a byte after which a watch is taken for dead; the API server sends a bookmark about every minute."""
_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 15.0
_PAUSE: Final = 0.0005
_PAUSE_AFTER_FAULT: Final = 1.0
_WRONG_SHAPE: Final = (AttributeError, KeyError, TypeError)
"""What reading JSON of another shape than the API's raises (a proxy's error page, a broken object)."""
_TIMEOUT: Final = httpx.Timeout(connect=5.0, read=_SILENCE, write=10.0, pool=10.0)

_PATHS: Final = {
    Kind.POOL: (f"/apis/{GROUP}/{VERSION}/workspacepools", {}),
    Kind.PROFILE: (f"/apis/{GROUP}/{VERSION}/workspaceprofiles", {}),
    Kind.ENDPOINT_SLICE: (
        "/apis/discovery.k8s.io/v1/endpointslices",
        {"labelSelector": f"{MANAGED_BY_LABEL}={MANAGED_BY}"},
    ),
}


class _Expired(Exception):
    """The version to go on from is too old: list again."""


@dataclass
class _ApiError(Exception):
    status: int
    text: str


async def watch_kubernetes(
    table: RoutingTable, model_owners: Mapping[str, str], access: KubernetesAccess | None = None
) -> None:
    """Keep `table` current for ever. While the API cannot be reached the table keeps what was known last.

    Raises:
        KubernetesConfigError: nothing says how to reach the API.
    """
    access = access or kubernetes_access()
    feed = _Feed(table, ClusterView(model_owners))
    async with (
        httpx.AsyncClient(base_url=access.server, verify=access.tls, timeout=_TIMEOUT, trust_env=False) as client,
        asyncio.TaskGroup() as group,
    ):
        for kind in Kind:
            group.create_task(_follow(kind, client, access, feed), name=f"watch {kind.value}")


class _Feed:
    """Hands what the watches say to the table, a few pools at a time between which the loop serves requests."""

    def __init__(self, table: RoutingTable, view: ClusterView) -> None:
        self.view = view
        self._table = table
        self._unlisted = set(Kind)
        self._stepping = False

    def put(self, kind: Kind, item: Mapping[str, Any]) -> None:
        try:
            self.view.put(kind, item)
        except (ValueError, *_WRONG_SHAPE) as error:  # an object of a newer or broken schema: the others must go on
            log.error("ignoring %s %s: %s", kind.value, _name(item), error)

    def listed(self, kind: Kind) -> None:
        self._unlisted.discard(kind)
        self.step()

    def step(self) -> None:
        if not self._stepping:
            self._step()

    def _step(self) -> None:
        self._stepping, pause = True, _PAUSE
        try:
            self._stepping = self.view.step(self._table)
        except Exception:  # one object that nobody foresaw must not keep all others out of the table for ever
            log.exception("an object did not get into the routing table; the others go on")
            pause = _PAUSE_AFTER_FAULT
        if self._stepping:
            asyncio.get_running_loop().call_later(pause, self._step)
        elif not self._unlisted and not self._table.synced:
            self._table.synced = True
            log.info("synced: %d pools", len(self._table.pools))


@dataclass
class _Position:
    """Where to go on; None: list again."""

    version: str | None = None
    connected: bool = False
    """The server has answered since the last failure."""


async def _follow(kind: Kind, client: httpx.AsyncClient, access: KubernetesAccess, feed: _Feed) -> None:
    position = _Position()
    failures = 0
    while True:
        try:
            if position.version is None:
                position.version = await _list(kind, client, access, feed)
            started = asyncio.get_running_loop().time()
            await _watch(kind, position, client, access, feed)
            if asyncio.get_running_loop().time() - started < _FIRST_BACKOFF:
                await asyncio.sleep(_FIRST_BACKOFF)  # a server or proxy that ends every watch at once
        except _Expired:
            position.version = None
        except (httpx.HTTPError, httpx.StreamError, OSError, _ApiError, ValueError, *_WRONG_SHAPE) as error:
            failures = 1 if position.connected else failures + 1
            position.connected = False
            delay = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(failures - 1, 10)) * random.uniform(0.75, 1.25)
            log.log(
                logging.WARNING if failures in (1, 5) or failures % 20 == 0 else logging.DEBUG,
                "cannot follow %s (%s): next try in %.1f s, serving what was known last",
                kind.value,
                _reason(error),
                delay,
            )
            await asyncio.sleep(delay)
            if not isinstance(error, httpx.TransportError):
                position.version = None


async def _list(kind: Kind, client: httpx.AsyncClient, access: KubernetesAccess, feed: _Feed) -> str:
    """Take in all objects of a kind and forget the others; returns the version of the list."""
    path, selector = _PATHS[kind]
    items: list[Mapping[str, Any]] = []
    parameters = {**selector, "limit": str(_PAGE)}
    while True:
        response = await client.get(path, params=parameters, headers=access.authorization())
        if response.status_code != 200:
            raise _ApiError(response.status_code, response.text[:300])
        document = deep_json.loads(response.content)
        for item in document.get("items") or ():
            feed.put(kind, item)
            items.append({"metadata": item["metadata"]})
            if len(items) % 20 == 0:
                await asyncio.sleep(0)
        follow_up = document["metadata"].get("continue")
        if not follow_up:
            break
        parameters["continue"] = follow_up
    feed.view.keep_only(kind, items)
    feed.listed(kind)
    return str(document["metadata"]["resourceVersion"])


async def _watch(
    kind: Kind, position: _Position, client: httpx.AsyncClient, access: KubernetesAccess, feed: _Feed
) -> None:
    """Take in the changes after `position`, and move it, until the server ends the watch."""
    path, selector = _PATHS[kind]
    parameters = {
        **selector,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": position.version or "",
        "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(20)),
    }
    async with client.stream("GET", path, params=parameters, headers=access.authorization()) as response:
        if response.status_code == 410:
            raise _Expired
        if response.status_code != 200:
            raise _ApiError(response.status_code, (await response.aread()).decode(errors="replace")[:300])
        position.connected = True
        rest = b""
        async for data in response.aiter_bytes():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.strip():
                    position.version = _take_in(kind, deep_json.loads(line), feed)
            feed.step()


def _take_in(kind: Kind, event: Mapping[str, Any], feed: _Feed) -> str:
    item = event["object"]
    if event["type"] == "ERROR":
        if item.get("code") == 410:
            raise _Expired
        raise _ApiError(int(item.get("code", 500)), str(item.get("message")))
    if event["type"] == "DELETED":
        feed.view.delete(kind, item["metadata"])
    elif event["type"] != "BOOKMARK":
        feed.put(kind, item)
    return str(item["metadata"]["resourceVersion"])


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return f"{metadata.get('namespace')}/{metadata.get('name')}" if isinstance(metadata, dict) else "without metadata"


def _reason(error: Exception) -> str:
    if isinstance(error, _ApiError):
        hint = ": the CRDs are not installed yet" if error.status == 404 else ""
        hint = ": this service account lacks the right to list and watch them" if error.status == 403 else hint
        return f"HTTP {error.status}{hint}"
    return f"{type(error).__name__} {error}".strip()
