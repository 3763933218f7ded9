"""The only module that imports kopf: it turns watch events into keys for the work queue and decides nothing.

kopf writes nothing here: no change handlers, timers or daemons, so no finalizers and no annotations. A missed event costs little,
since nothing is done but on live reads and a resync lists everything, also when a watch had to begin anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import kopf

from workslice_api import names
from workslice_operator.keys import Key, pool_key, profile_key
from workslice_operator.kube_api import POOLS, PROFILES, Credentials, Object, Resource
from workslice_operator.watch_session import watch_session

# kopf gives up after the last of these and ends the process: a day is longer than any outage that a restart would cure.
_BACKOFFS: Final = (1, 1, 2, 3, 5, *[10] * 8640)
_LOGIN_SECONDS: Final = 10.0
"""Between two logins with what the API has refused: it may not know us for a while, or know us again by a new token."""


def registry_of_handlers(
    add: Callable[[Key], None],
    credentials: Callable[[], Awaitable[Credentials]],
    listed_again: Callable[[], None],
    told: Callable[[Resource, Object, bool], None],
) -> kopf.OperatorRegistry:
    """Handlers that call `add` with the key of a pool or profile that must be looked at. kopf's session calls `told` before with every one
    that it hears of, however little has changed (False: it is gone), and `listed_again` when a watch had to begin anew: objects may have
    gone unseen.
    """
    registry = kopf.OperatorRegistry()
    listed: set[str] = set()
    logged_in: dict[str, float] = {}

    def tell(path: str, raw: Object, there: bool) -> None:
        for resource in (POOLS, PROFILES):
            if path.endswith(resource.path()):  # the API's own path may come before it
                told(resource, raw, there)

    @kopf.on.login(registry=registry)
    async def login(**_kwargs: Any) -> kopf.AiohttpSession:
        held = await credentials()
        loop = asyncio.get_running_loop()
        identity = held.authorization or ""
        await asyncio.sleep(max(0.0, logged_in.get(identity, float("-inf")) + _LOGIN_SECONDS - loop.time()))
        logged_in.clear()
        logged_in[identity] = loop.time()
        scheme, _, token = identity.partition(" ")
        info = kopf.ConnectionInfo(
            server=held.server,
            ca_path=held.ca_file,
            insecure=not held.verify,
            scheme=scheme or None,
            token=token or None,
            certificate_path=held.certificate_file,
            private_key_path=held.key_file,
        )
        session = watch_session(info.as_ssl_context(), info.as_http_headers(), listed, listed_again, tell)
        return kopf.AiohttpSession(server=held.server, aiohttp_session=session)

    @kopf.on.event(names.GROUP, names.VERSION, names.POOL_PLURAL, registry=registry)
    async def pool_event(meta: Mapping[str, Any], **_kwargs: Any) -> None:
        add(pool_key(meta["namespace"], meta["name"]))

    @kopf.on.event(names.GROUP, names.VERSION, names.PROFILE_PLURAL, registry=registry)
    async def profile_event(meta: Mapping[str, Any], **_kwargs: Any) -> None:
        add(profile_key(meta["name"]))

    return registry


def kopf_settings() -> kopf.OperatorSettings:
    """Settings that make kopf a plain watcher of our own objects."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True  # CRDs are there before it starts, and it needs no right to list them
    settings.posting.enabled = False
    settings.process.ultimate_exiting_timeout = 20
    settings.queueing.idle_timeout = 1.0  # a task per object waits so long for its next event
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = 100
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = _BACKOFFS
    settings.persistence.finalizer = f"{names.GROUP}/finalizer"  # never attached; if it were, under our own name
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    return settings


async def watch(registry: kopf.OperatorRegistry) -> None:
    """Watch until the process gets SIGTERM or SIGINT; raises when watching is no longer possible."""
    # No stop_flag: kopf leaves the task that waits for it behind and then waits 5 s for it at every exit.
    await kopf.operator(registry=registry, settings=kopf_settings(), clusterwide=True)
