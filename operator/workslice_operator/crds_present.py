"""Waits until the API is there and serves Workslice's kinds: the operator may be started before either."""

import asyncio
import logging
from typing import Protocol

from workslice_api.names import API_VERSION, POOL_PLURAL, PROFILE_PLURAL
from workslice_operator.kube_api import POOLS, PROFILES, Kube, KubeError

LOOK_SECONDS = 1.0
SAY_SECONDS = 10.0

log = logging.getLogger(__name__)


class Discovery(Kube, Protocol):
    """A Kubernetes API that also tells what it serves."""

    async def served(self, api_version: str) -> frozenset[str]:
        """Plural names of the kinds in a group and version."""


async def wait_for_crds(kube: Discovery) -> None:
    """Return when both kinds are served and may be listed; until then say every 10 s what is missing."""
    loop = asyncio.get_running_loop()
    say_at = loop.time()
    while (missing := await _missing(kube)) is not None:
        if loop.time() >= say_at:
            log.warning("waiting: %s", missing)
            say_at = loop.time() + SAY_SECONDS
        await asyncio.sleep(LOOK_SECONDS)


async def _missing(kube: Discovery) -> str | None:
    try:
        absent = {POOL_PLURAL, PROFILE_PLURAL} - await kube.served(API_VERSION)
        if absent:
            return (
                f"the CustomResourceDefinitions of {', '.join(sorted(absent))} ({API_VERSION}) are not installed: "
                "apply the files in crds/ or install the chart with crds.enabled=true"
            )
        # Discovery may be ahead of the storage (429 right after the CRD was created) and says nothing about rights.
        for resource in (POOLS, PROFILES):
            await kube.list(resource)
    except KubeError as error:
        return f"the Kubernetes API does not answer as needed: {error}"
    return None
