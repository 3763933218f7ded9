"""The Lease that lets one operator work at a time: a rolling update or a lost node overlaps two of them.

The numbers are client-go's. Unlike there, a process that cannot reach the API does not exit: it only stops working until it has
renewed again, since an outage hits every candidate alike. It gives up when another process holds the Lease.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from workslice_operator.kube_api import LEASES, Conflict, Kube, KubeError, Object

NAME = "workslice-operator"
DURATION_SECONDS = 15
RENEW_DEADLINE_SECONDS = 10.0
RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)


class LeaseLost(Exception):
    """Another process holds the Lease: this one must end."""


class Lease:
    """Holds a Lease for `identity`, which must be this process's alone (or a dead predecessor's in the same pod)."""

    def __init__(self, kube: Kube, namespace: str, identity: str, clock: Callable[[], datetime]) -> None:
        """`clock` tells UTC time with its zone; only for what is written, expiry is measured locally."""
        self._kube = kube
        self._namespace = namespace
        self._identity = identity
        self._clock = clock
        self._renewed_at = float("-inf")
        self._seen: tuple[Any, float] = (None, 0.0)
        self._expires_at = float("-inf")
        self._complaint = ""

    @property
    def held(self) -> bool:
        """Renewed so recently that nobody else can have it."""
        return _now() - self._renewed_at < RENEW_DEADLINE_SECONDS

    @property
    def over_at(self) -> float:
        """When another may have it unless it is renewed before, by the running loop's clock; in the past when it is not held."""
        return self._renewed_at + DURATION_SECONDS

    async def acquire(self) -> None:
        """Return once the Lease is held."""
        said = ""
        while True:
            holder = await self._try()
            if holder == self._identity:
                log.info("leading", extra={"identity": self._identity})
                return
            if holder != said:
                said = holder
                log.info("waiting for the lease, held by %s", holder or "nobody: the API did not answer")
            await asyncio.sleep(min(RETRY_SECONDS, self._until_expiry()))

    async def keep(self, regained: Callable[[], None]) -> None:
        """Renew for ever; `regained` is called when it is held again after an outage.

        Raises:
            LeaseLost: somebody else holds it.
        """
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            was_held = self.held
            holder = await self._try()
            if holder not in ("", self._identity):
                raise LeaseLost(f"the lease is now held by {holder}")
            if holder and not was_held:
                log.info("leading again")
                regained()

    async def release(self) -> None:
        """Let the next candidate begin at once; best effort."""
        try:
            lease = await self._kube.get(LEASES, self._namespace, NAME)
            if lease is not None and lease.get("spec", {}).get("holderIdentity") == self._identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._time()}
                await self._kube.replace(LEASES, lease)
        except KubeError as error:
            log.info("lease not released: %s", error)
        self._renewed_at = float("-inf")

    async def _try(self) -> str:
        """Acquire or renew once; returns who holds it now, or an empty string when that is not known."""
        started = _now()
        try:
            lease = await self._kube.get(LEASES, self._namespace, NAME)
            if lease is None:
                await self._kube.create(LEASES, self._fresh())
            else:
                spec = lease.setdefault("spec", {})
                holder = spec.get("holderIdentity") or ""
                if holder not in ("", self._identity) and not self._expired(lease):
                    return holder
                if holder != self._identity:
                    spec |= {"acquireTime": self._time(), "leaseTransitions": spec.get("leaseTransitions", 0) + 1}
                spec |= {
                    "holderIdentity": self._identity,
                    "leaseDurationSeconds": DURATION_SECONDS,
                    "renewTime": self._time(),
                }
                await self._kube.replace(LEASES, lease)
        except Conflict:
            return ""  # somebody wrote in between; the next look tells who
        except KubeError as error:
            if self._complaint != error.message:
                self._complaint = error.message
                log.warning("the lease cannot be renewed, so nothing is done meanwhile: %s", error)
            return ""
        self._complaint = ""
        self._renewed_at = started
        return self._identity

    def _expired(self, lease: Object) -> bool:
        """Whether its holder has not touched it for its duration, by the local clock: clocks of nodes differ."""
        version = lease["metadata"].get("resourceVersion")
        if self._seen[0] != version:
            self._seen = (version, _now())
        duration = float(lease["spec"].get("leaseDurationSeconds") or DURATION_SECONDS)
        self._expires_at = self._seen[1] + duration
        return _now() >= self._expires_at

    def _until_expiry(self) -> float:
        """Seconds until another's Lease expires, so that none of them is waited in vain; a long time when that has passed."""
        left = self._expires_at - _now()
        return left if left > 0 else float("inf")

    def _fresh(self) -> Object:
        now = self._time()
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": NAME, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION_SECONDS,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    def _time(self) -> str:
        return self._clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _now() -> float:
    return asyncio.get_running_loop().time()
