"""The Kubernetes API as the bench uses it: raw requests with the administrator's kubeconfig."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from kubernetes.aio import config
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_PAGE = 500
_AT_ONCE = 16


class Api:
    def __init__(self, server: str, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Any:
        """The document of the answer; raises RuntimeError with the API's words."""
        headers = {"Content-Type": content_type, "Accept": accept}
        async with self._session.request(
            method, self._server + path, data=None if body is None else json.dumps(body), headers=headers
        ) as answer:
            text = await answer.text()
            if answer.status >= 400:
                raise Refused(answer.status, f"{method} {path}: {answer.status} {text[:300]}")
            return json.loads(text) if answer.content_type == "application/json" else text

    async def apply(self, path: str, manifest: Any) -> Any:
        return await self.request("PATCH", f"{path}?fieldManager=bench&force=true", manifest, APPLY)

    async def items(self, path: str, metadata_only: bool = False) -> list[Any]:
        """All objects of a collection, from the API server's cache."""
        accept = _METADATA_ONLY if metadata_only else "application/json"
        found: list[Any] = []
        further = ""
        while True:
            separator = "&" if "?" in path else "?"
            page = await self.request("GET", f"{path}{separator}limit={_PAGE}{further}", accept=accept)
            found += page["items"] or []
            token = page["metadata"].get("continue")
            if not token:
                return found
            further = f"&continue={token}"

    async def events(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """Type and object: first ADDED for everything there is, then every change, for ever."""
        while True:
            url = f"{self._server}{path}?watch=true&allowWatchBookmarks=false"
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**22) as stream:
                async for line in stream.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    yield event["type"], event["object"]


class Refused(RuntimeError):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@asynccontextmanager
async def connected() -> AsyncIterator[Api]:
    """With the cluster that KUBECONFIG names."""
    os.environ["NO_PROXY"] = "*"
    configuration = Configuration()
    await config.load_kube_config(
        os.environ["KUBECONFIG"], client_configuration=configuration
    )  # it reads the variable when imported
    rest = RESTClientObject(configuration)
    connector = aiohttp.TCPConnector(ssl=rest.ssl_context, limit=2 * _AT_ONCE)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield Api(configuration.host, session)
    await rest.close()


async def for_each(items: Iterable[Any], do: Callable[[Any], Awaitable[Any]]) -> None:
    """Some at a time."""
    waiting = iter(items)

    async def work() -> None:
        for one in waiting:
            await do(one)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
