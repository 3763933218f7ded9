"""Which pools are being rolled out and which wait for their turn. No I/O.

A change of one profile must not take a replica out of every pool of it at once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from workslice_api.conditions import find_condition
from workslice_api.names import POOL_LABEL, ConditionType, Reason
from workslice_operator.keys import Key, pool_key
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan
from workslice_operator.rollout_facts import deployment_facts
from workslice_operator.surge import additional

MOST_AT_ONCE: Final = 50
"""Unless the chart says otherwise: pools whose replicas are replaced at the same time, in the whole cluster. Each has one replica out of
service meanwhile, or one more."""


class RollingPools:
    """Turns of one process; all of it can be lost, since a rollout under way shows at its Deployment: see `remember`."""

    def __init__(self, wake: Callable[[Key], None], most: int) -> None:
        """`wake` queues the key of a pool whose turn it is."""
        self._wake = wake
        self._most = most
        self._rolling: dict[Key, float | None] = {}
        """Since when nothing of the version before is left; None: something is."""
        self._waiting: dict[Key, None] = {}
        """In the order in which they came."""
        self._called: set[Key] = set()
        """Those whose turn it is, until they have taken it or passed it on."""
        self._takes: dict[Key, str] = {}
        """Resource of the slice that a pool takes additionally, until the pod that waits for it or has it is there to be counted."""

    def remember(self, deployments: Iterable[Mapping[str, Any]]) -> None:
        """Count the rollouts that another process has begun, as these raw Deployments show them, before any pool is looked at: else pools
        that wait would begin in those places. Each is queued, so that its own look says whether it still counts.
        """
        for raw in deployments:
            pool, facts = (raw["metadata"].get("labels") or {}).get(POOL_LABEL, ""), deployment_facts(raw)
            if pool and facts.outdated_replicas and not facts.stalled:
                key = pool_key(raw["metadata"]["namespace"], pool)
                self._rolling[key] = None
                self._wake(key)

    def may_roll(self, key: Key, observed: Observed, seconds: float) -> bool:
        """Whether a rollout of the pool may begin or is under way; `observed` tells whether an earlier one has ended, `seconds` the
        time, of a clock that never goes back.
        """
        since = self._replaced_since(key, observed, seconds)
        if is_rolling(observed, begun=key in self._rolling) and not _is_over(observed, since, seconds):
            self._rolling[key] = since
        else:
            self._end(key)
        if observed.deployment is None or not observed.deployment.surges or additional(observed):
            self._takes.pop(key, None)
        return key in self._rolling or len(self._rolling) < self._most

    def spoken_for(self, key: Key, resource: str) -> int:
        """Slices that other pools are about to take for a rollout, and that still look free."""
        return sum(one == resource for other, one in self._takes.items() if other != key)

    def follow(self, key: Key, planned: Plan, observed: Observed) -> None:
        """The plan that is carried out now: it takes a turn, waits for one, or needs none. Call it before anything is awaited."""
        waits = find_condition(planned.status.conditions, ConditionType.OUTDATED)
        deployment, called = observed.deployment, key in self._called
        self._called.discard(key)
        if waits is not None and waits.reason == Reason.ROLLOUT_WAITS and not observed.may_roll:
            self._waiting.setdefault(key)
            return
        self._waiting.pop(key, None)
        if deployment and deployment.replicas and planned.template_hash not in ("", deployment.template_hash):
            self._rolling[key] = None
            if planned.takes_slice:
                self._takes[key] = planned.takes_slice
        elif called:
            self._call(1)

    def forget(self, key: Key) -> None:
        """The pool is gone."""
        self._waiting.pop(key, None)
        self._end(key)
        if key in self._called:
            self._called.remove(key)
            self._call(1)

    def _replaced_since(self, key: Key, observed: Observed, seconds: float) -> float | None:
        deployment = observed.deployment
        if deployment is None or deployment.outdated_replicas or not deployment.settled:
            return None
        before = self._rolling.get(key)
        return seconds if before is None else before

    def _end(self, key: Key) -> None:
        self._takes.pop(key, None)
        if key in self._rolling:
            del self._rolling[key]
            self._call(self._most - len(self._rolling))

    def _call(self, most: int) -> None:
        for _ in range(min(len(self._waiting), most, self._most - len(self._rolling))):
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._called.add(first)
            self._wake(first)  # it waits again if another was quicker


def _is_over(observed: Observed, replaced_since: float | None, seconds: float) -> bool:
    """Whether the last replica has had its time. One that becomes ready and crashes again makes progress for the Deployment at each turn,
    so that it never stalls; yet nothing of the version before is out of service for it any more.
    """
    if observed.deployment is None or replaced_since is None:
        return False
    return seconds - replaced_since >= observed.deployment.progress_deadline


def is_rolling(observed: Observed, begun: bool) -> bool:
    """Whether replicas of a pool are being replaced; one that makes no progress any more holds up nobody.

    `begun`: this process has begun it, so that what does not show yet, or no longer, counts too: the last replica may still be starting.
    """
    deployment = observed.deployment
    if deployment is None or deployment.stalled:
        return False
    if deployment.outdated_replicas:
        return True
    ready = sum(pod.ready for pod in observed.pods if pod.live)
    return begun and (not deployment.settled or ready < deployment.replicas)
