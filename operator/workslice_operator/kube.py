"""The only home of the Kubernetes client: raw requests over kubernetes.aio, plain dicts in and out.

Raw, since the typed and dynamic layers cost several times the CPU of a request and reject what a newer API server sends.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject, RESTResponse

from workslice_api import deep_json
from workslice_api.names import FIELD_MANAGER, STATUS_FIELD_MANAGER
from workslice_operator.kube_api import (
    LOG_BYTES,
    PODS,
    Credentials,
    KubeError,
    NotFound,
    Object,
    Resource,
    Unavailable,
    error_of,
)

REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=20, connect=5)
LONGEST_WAIT = 10.0
"""Seconds that a request waits when the API says to come back later, before it fails instead."""
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_read=75)
"""The API sends a bookmark every minute where nothing happens."""
LIST_CHUNK = 500
PAGE = 100
"""Objects of a list that are taken in one after the other: raw they take many times the memory of what is kept of them."""
READ_AHEAD = 512 * 1024
"""Bytes of a watch that are taken in at once: the API ends watches of those who fall behind."""

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"

log = logging.getLogger(__name__)


class KubeUnconfigured(Exception):
    """There is no way to reach a Kubernetes API; the message says what was looked for."""


@contextlib.asynccontextmanager
async def connect_kube() -> AsyncIterator["KubeClient"]:
    """A client with the pod's service account, else with KUBECONFIG.

    Raises:
        KubeUnconfigured: neither is there.
    """
    try:
        configuration = await _configuration()
        rest = RESTClientObject(configuration)
    except Exception as error:  # the client raises whatever comes of a file that is no kubeconfig
        reason = " ".join(str(error).split()) or type(error).__name__
        raise KubeUnconfigured(
            f"no access to a Kubernetes API: {reason}. Run inside a pod with a service account, or set KUBECONFIG"
        ) from error
    try:
        yield KubeClient(configuration, rest)
    finally:
        await rest.close()


async def _configuration() -> Configuration:
    configuration = Configuration()
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    server = urlsplit(configuration.host)
    session: dict[str, Any] = {"read_bufsize": READ_AHEAD}
    if not getproxies().get(server.scheme) or proxy_bypass(server.hostname or ""):
        # Else two threads are asked, before every request, whether the environment names a proxy.
        session["trust_env"] = False
    configuration.client_session_kwargs = session
    return configuration


class KubeClient:
    """Fulfils kube_api.Kube."""

    def __init__(self, configuration: Configuration, rest: RESTClientObject) -> None:
        self._configuration = configuration
        self._rest = rest
        self._not_before: dict[str, float] = {}
        """Path → when the API wants to be asked for it again, whoever asks, by the running loop's clock."""
        self._one_page = asyncio.Lock()

    async def credentials(self) -> Credentials:
        """The present credentials; ask again when they are refused, since tokens expire."""
        configuration = self._configuration
        return Credentials(
            server=configuration.host,
            ca_file=configuration.ssl_ca_cert,
            verify=configuration.verify_ssl,
            authorization=(await self._authorization()).get("authorization"),
            certificate_file=configuration.cert_file,
            key_file=configuration.key_file,
        )

    async def served(self, api_version: str) -> frozenset[str]:
        """Plural names of the kinds that the API serves in a group and version; empty when it serves none."""
        group = api_version.split("/", maxsplit=1)[0]
        try:
            groups = await self._request("GET", "/apis")
            if group not in (one["name"] for one in groups["groups"]):
                return frozenset()
            kinds = await self._request("GET", f"/apis/{api_version}")
        except NotFound:
            return frozenset()
        return frozenset(one["name"] for one in kinds["resources"])

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """See kube_api.Kube."""
        try:
            return await self._request("GET", resource.path(namespace, name))
        except NotFound:
            return None

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        """See kube_api.Kube."""
        items: list[Object] = []
        token = ""
        while True:
            page = await self._page(resource.path(namespace), LIST_CHUNK, token, labels, fields)
            items += page.get("items") or []
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return items

    async def page(self, resource: Resource, labels: str, token: str) -> Object:
        """See kube_api.KubeWatch."""
        async with self._one_page:  # all kinds are listed at the start, and raw pages are large
            return await self._page(resource.path(), PAGE, token, labels)

    async def _page(self, path: str, limit: int, token: str, labels: str, fields: str = "") -> Object:
        query = {"limit": str(limit), "labelSelector": labels, "fieldSelector": fields, "continue": token}
        return await self._request("GET", path, {name: value for name, value in query.items() if value})

    @contextlib.asynccontextmanager
    async def watch(
        self, resource: Resource, labels: str, version: str
    ) -> AsyncIterator[AsyncIterator[tuple[str, Object]]]:
        """See kube_api.KubeWatch."""
        path = resource.path()
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        await self._wait_as_told(path, asyncio.get_running_loop().time() + LONGEST_WAIT)
        try:
            selected = query | ({"labelSelector": labels} if labels else {})
            response = await self._start("GET", path, selected, limits=WATCH_TIMEOUT)
            try:
                if response.status >= 400:
                    self._told_to_wait(path, response.status, response.response.headers.get("Retry-After"))
                    raise _error(response.status, await response.response.read())
                yield _events(response.response.content)
            finally:
                response.response.close()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, config.ConfigException) as error:
            raise Unavailable(0, f"watch {path}: {error or type(error).__name__}") from error

    async def apply(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return await self._apply(resource, manifest, FIELD_MANAGER, "")

    async def dry_apply(self, resource: Resource, manifest: Mapping[str, Any], manager: str = FIELD_MANAGER) -> Object:
        """See plan_command.DryKube."""
        return await self._apply(resource, manifest, manager, "", {"dryRun": "All"})

    async def apply_status(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        return await self._apply(resource, manifest, STATUS_FIELD_MANAGER, "status")

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        namespace = manifest["metadata"].get("namespace", "")
        return await self._request("POST", resource.path(namespace), body=manifest)

    async def replace(self, resource: Resource, manifest: Mapping[str, Any]) -> Object:
        """See kube_api.Kube."""
        metadata = manifest["metadata"]
        return await self._request("PUT", resource.path(metadata.get("namespace", ""), metadata["name"]), body=manifest)

    async def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """See kube_api.Kube."""
        await self._request("PATCH", resource.path(namespace, name), body=patch, content_type=_MERGE)

    async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
        """See kube_api.Kube."""
        path = PODS.path(namespace, pod, "log")
        query = {"container": container, "previous": str(previous).lower(), "limitBytes": str(LOG_BYTES)}
        while True:
            text = await self._send("GET", path, query | {"tailLines": str(lines)})
            if len(text) < LOG_BYTES or lines <= 1:
                return text.decode(errors="replace")
            lines = max(1, lines // 20)  # what is over the limit was cut off the end, which matters most

    async def _apply(
        self,
        resource: Resource,
        manifest: Mapping[str, Any],
        manager: str,
        subresource: str,
        further: Mapping[str, str] | None = None,
    ) -> Object:
        metadata = manifest["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"], subresource)
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict", **(further or {})}
        return await self._request("PATCH", path, query, manifest, _APPLY)

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        content = await self._send(method, path, query, body, content_type)
        try:
            document = deep_json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise Unavailable(0, f"{method} {path}: what answers is not a Kubernetes API: {content[:100]!r}")
        return document

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        wait_until = asyncio.get_running_loop().time() + LONGEST_WAIT
        while True:
            await self._wait_as_told(path, wait_until)
            try:
                response = await self._start(method, path, query, body, content_type)
                content: bytes = await response.response.read()
            except (aiohttp.ClientError, TimeoutError, OSError, config.ConfigException) as error:
                raise Unavailable(0, f"{method} {path}: {error or type(error).__name__}") from error
            if response.status < 400:
                return content
            if not self._told_to_wait(path, response.status, response.response.headers.get("Retry-After")):
                raise _error(response.status, content)

    async def _wait_as_told(self, path: str, wait_until: float) -> None:
        """Return when the path may be asked for again; raises Unavailable at once if that is later than `wait_until`."""
        loop = asyncio.get_running_loop()
        while (until := self._not_before.get(path, 0.0)) > loop.time():
            if until > wait_until:
                raise Unavailable(429, f"{path}: the API wants to be asked again in {until - loop.time():.0f} s")
            await asyncio.sleep(until - loop.time())

    def _told_to_wait(self, path: str, status: int, retry_after: str | None) -> bool:
        """Remember for how long the API is not to be asked for this; False when it has not said so."""
        if status not in (429, 503) or not retry_after or not retry_after.isdecimal() or int(retry_after) == 0:
            return False
        now = asyncio.get_running_loop().time()
        self._not_before = {one: until for one, until in self._not_before.items() if until > now}
        self._not_before[path] = now + int(retry_after)
        return True

    async def _start(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        limits: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
    ) -> RESTResponse:
        """The answer as soon as its head is there."""
        url = self._configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": FIELD_MANAGER}
        headers |= await self._authorization()
        response: RESTResponse = await self._rest.request(  # type: ignore[no-untyped-call]
            method, url, headers=headers, body=body, _request_timeout=limits
        )
        return response

    async def _authorization(self) -> dict[str, str]:
        """Asked for at every request: it reads the service account's token again when that is a minute old."""
        settings: dict[str, Any] = dict(await self._configuration.auth_settings())
        return {one["key"]: one["value"] for one in settings.values()}


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[tuple[str, Object]]:
    async for line in _lines(content):
        event = deep_json.loads(line)
        if event["type"] == "ERROR":
            status = event["object"]
            raise error_of(status.get("code") or 0, str(status.get("message", "the watch failed")))
        yield event["type"], event["object"]


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """However long: the reader's own lines end in an error at twice its buffer, which an object of any user may take."""
    begun = b""
    async for chunk in content.iter_any():
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            yield line
    if begun:
        yield begun


def _error(status: int, content: bytes) -> KubeError:
    """The error that an answer stands for: with the message of its Status object, or the beginning of whatever came."""
    try:
        document = orjson.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document.get("message"):
        return error_of(status, f"HTTP {status}: {content[:200].decode(errors='replace')}")
    causes = (document.get("details") or {}).get("causes") or []
    return error_of(status, str(document["message"]), [str(one.get("reason", "")) for one in causes])
