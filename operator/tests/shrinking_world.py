"""A small model of everything that a drain meets: routers that lag or fall silent, engines, a ReplicaSet that deletes in its own order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pool_facts import NOW, make_deployment, make_pod, make_pool

from workslice_api.pool import WorkspacePoolStatus
from workslice_api.state import PoolState, ReplicaState, RouterState
from workslice_operator.demand import Answer, RouterEndpoint
from workslice_operator.drain import DrainPlan, Stage, engines_to_ask, plan_drain
from workslice_operator.observed import EngineLoad, Observed, PodFacts
from workslice_operator.router_report import router_report

TIMEOUT = 60.0
POOL = "shop/short"


@dataclass
class Replica:
    uid: str
    serial: int
    ready: bool = True
    started: bool = True
    cost: int = 0
    former_cost: int = 0
    """Before the last reconcile: the ReplicaSet controller may still see it."""
    requests: dict[int, int] = field(default_factory=dict)
    """Router → requests running here."""
    unrouted: int = 0
    """Requests that only the engine knows of: a router that has ended left them."""

    @property
    def load(self) -> int:
        return sum(self.requests.values()) + self.unrouted if self.started else 0

    def facts(self) -> PodFacts:
        return make_pod(
            self.uid,
            uid=self.uid,
            ready=self.ready,
            started=self.started,
            deletion_cost=self.cost,
            address=self.uid,
            created_at=NOW + timedelta(seconds=self.serial),
        )


@dataclass
class Router:
    reachable: bool = True
    draining: frozenset[str] = frozenset()
    """What it last heard of status.draining."""
    knows: frozenset[str] = frozenset()


class World:
    def __init__(self, loads: Sequence[tuple[int, int]], routers: int, desired: int) -> None:
        """One ready replica for each pair of requests that a router knows of and that only the engine knows of."""
        self.seconds = 0.0
        self.made = 0
        self.deployment, self.desired = len(loads), desired
        self.replicas: list[Replica] = []
        self.routers = [Router() for _ in range(routers)]
        self.draining: list[str] = []
        self.marks: list[Any] = []
        self.rolling = False
        self.removed: list[Replica] = []
        self.expired: set[str] = set()
        self.replica_set(ready=True)
        for one, (routed, unrouted) in zip(self.replicas, loads, strict=True):
            one.requests, one.unrouted = ({one.serial % routers: routed} if routed else {}), unrouted
        self.sync_routers()

    def replica_set(self, ready: bool = False) -> None:
        """Make and delete pods as the ReplicaSet controller does."""
        while len(self.replicas) < self.deployment:
            self.made += 1
            self.replicas.append(Replica(f"pod-{self.made}", self.made, ready, ready))

        def order_of_deletion(one: Replica) -> tuple[bool, int, int]:
            # The worst that a controller that lags can do: a busy replica looks cheap, an idle one dear.
            seen = one.cost, one.former_cost
            return one.ready, min(seen) if one.load else max(seen), -one.load

        order = sorted(self.replicas, key=order_of_deletion)
        for gone in order[: max(0, len(order) - self.deployment)]:
            self.removed.append(gone)
            self.replicas.remove(gone)

    def sync_routers(self) -> None:
        for router in self.routers:
            self.sync(router)

    def sync(self, router: Router) -> None:
        router.draining = frozenset(self.draining)
        router.knows = frozenset(one.uid for one in self.replicas)

    def send(self, number: int, choice: int) -> None:
        """A request arrives at a router, which gives it to a replica that it may use."""
        router = self.routers[number % len(self.routers)]
        usable = [
            one for one in self.replicas if one.ready and one.uid in router.knows and one.uid not in router.draining
        ]
        if usable:
            chosen = usable[choice % len(usable)]
            chosen.requests[number % len(self.routers)] = chosen.requests.get(number % len(self.routers), 0) + 1

    def finish(self, choice: int) -> None:
        """All requests of one replica end."""
        if self.replicas:
            one = self.replicas[choice % len(self.replicas)]
            one.requests, one.unrouted = {}, 0

    def forget(self, choice: int) -> None:
        """Requests of one replica outlive the router that sent them."""
        if self.replicas:
            one = self.replicas[choice % len(self.replicas)]
            one.requests, one.unrouted = {}, one.load

    def observed(self) -> Observed:
        status = WorkspacePoolStatus.model_validate({"drainMarks": [one.to_wire() for one in self.marks]}).to_wire()
        pool = make_pool(status=status, drain={"timeout": f"{TIMEOUT:.0f}s"})
        answers = [
            Answer(RouterEndpoint(f"10.0.0.{n}", 9090, True, False), self._state(n)) for n in range(len(self.routers))
        ]
        return Observed(
            pool=pool,
            profile=None,
            deployment=make_deployment(self.deployment, template_hash="new", outdated_replicas=int(self.rolling)),
            pods=tuple(one.facts() for one in self.replicas),
            routers=router_report(answers, POOL, NOW + timedelta(seconds=self.seconds)),
        )

    def _state(self, number: int) -> RouterState | None:
        router = self.routers[number]
        if not router.reachable:
            return None
        rows = tuple(
            ReplicaState(
                uid=one.uid,
                address=one.uid,
                in_flight=one.requests.get(number, 0),
                draining=one.uid in router.draining,
            )
            for one in self.replicas
            if one.uid in router.knows
        )
        return RouterState(synced=True, pools={POOL: PoolState(replicas=rows)})

    def plan(self) -> DrainPlan:
        """What the operator would do now; reads engines as its shell does."""
        now = NOW + timedelta(seconds=self.seconds)
        observed = self.observed()
        loads = {one.uid: EngineLoad(one.load, 0) for one in self.replicas if one.started}
        asked = {pod.uid: loads[pod.uid] for pod in engines_to_ask(observed, now) if pod.uid in loads}
        return plan_drain(
            Observed(**{**vars(observed), "engines": asked}),
            self.desired,
            "new",
            now,
        )

    def operate(self) -> DrainPlan:
        """One reconcile: marks on pods, the Deployment, the status, in this order."""
        plan = self.plan()
        by_uid = {one.uid: one for one in self.replicas}
        for one in self.replicas:
            one.former_cost = one.cost
        for change in plan.costs:
            by_uid[change.uid].cost = change.cost or 0
        # Of two whose time is over a controller that lags may take the one that the plan did not mean.
        self.expired |= {uid for uid, stage in (plan.stages or {}).items() if stage is Stage.EXPIRED}
        self.deployment = plan.replicas
        self.marks = list(plan.marks)
        self.draining = [mark.uid for mark in plan.marks]
        return plan
