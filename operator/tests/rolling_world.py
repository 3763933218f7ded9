"""A small model of everything that a rollout meets: the controllers of Deployments and ReplicaSets, a scheduler, a quota, engines."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pool_facts import INSTALLATION, NOW, SLICE, make_exit, make_pod, make_pool, make_profile

from workslice_api.pool import WorkspacePool, WorkspacePoolStatus
from workslice_operator.keys import pool_key
from workslice_operator.observed import Observed, PodFacts
from workslice_operator.plan import Plan, plan
from workslice_operator.rolling_pools import RollingPools
from workslice_operator.rollout_facts import ReplicaSetFacts, deployment_facts
from workslice_operator.slice_inventory import NodeSlices, SliceInventory

NO_SLICE = f"0/1 nodes are available: 1 Insufficient {SLICE}."
QUOTA = 'pods "x" is forbidden: exceeded quota: pods'
LONGEST_END = timedelta(seconds=85)
QUIET_ROUNDS = 16
"""More than any wait of the operator's takes."""
BROKEN = ("--no-such-flag",)


@dataclass
class Pod:
    name: str
    template: str
    created_at: datetime
    placed_at: datetime | None = None
    refused: bool = False
    ready: bool = False
    deleted_at: datetime | None = None
    restarts: int = 0

    @property
    def deleting(self) -> bool:
        return self.deleted_at is not None

    def facts(self) -> PodFacts:
        crashed = not self.ready and self.restarts > 0
        return make_pod(
            self.name,
            created_at=self.created_at,
            scheduled_at=self.placed_at,
            phase="Running" if self.placed_at else "Pending",
            unschedulable=NO_SLICE if self.refused and not self.placed_at else "",
            ready=self.ready,
            started=self.ready,
            deleting=self.deleting,
            restarts=self.restarts,
            node="node-1" if self.placed_at else "",
            template=self.template,
            waiting_reason="CrashLoopBackOff" if crashed else "",
            last_exit=replace(make_exit("it ended"), replaced=True) if crashed else None,
        )


@dataclass
class ReplicaSet:
    template: str
    revision: int
    replicas: int = 0
    seen: int = 0
    """Its pods, as it has counted them last."""
    refused: bool = False


@dataclass
class Rolling:
    """One pool with everything that belongs to it."""

    name: str
    replicas: int
    extra_args: tuple[str, ...] = ()
    deployment: dict[str, Any] | None = None
    generation: int = 0
    observed_generation: int = 0
    counted: tuple[int, int] = (0, 0)
    """Replicas and updated ones, as the Deployment's status has them."""
    sets: dict[str, ReplicaSet] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    status: WorkspacePoolStatus = field(default_factory=WorkspacePoolStatus)
    made: int = 0
    quota: int = 1000
    """Pods that it may have, those that still end included."""
    broken: set[str] = field(default_factory=set)
    """Templates whose engines do not come up."""

    @property
    def pool(self) -> WorkspacePool:
        pool = make_pool(self.name, replicas=self.replicas, scaling={"mode": "Fixed"}, drain={"timeout": "60s"})
        return pool.model_copy(update={"status": self.status})

    @property
    def live(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.deleting]

    @property
    def ready(self) -> int:
        return sum(pod.ready for pod in self.live)

    @property
    def strategy(self) -> tuple[int, int]:
        """Surge and unavailable."""
        assert self.deployment is not None
        rolling = self.deployment["spec"]["strategy"]["rollingUpdate"]
        return rolling["maxSurge"], rolling["maxUnavailable"]

    @property
    def newest(self) -> ReplicaSet | None:
        return max(self.sets.values(), key=lambda one: one.revision, default=None)


class World:
    """A cluster with so many slices of one kind."""

    def __init__(self, slices: int, *pools: Rolling, most: int = 50) -> None:
        self.slices = slices
        self.foreign = 0
        """Slices that others hold."""
        self.foreign_wants = 0
        """Slices that they take as soon as they are free."""
        self.now = NOW
        self.writes = 0
        self.pools = pools
        self.rolling = RollingPools(lambda key: None, most)

    @property
    def free(self) -> int:
        return self.slices - self.foreign - sum(pod.placed_at is not None for one in self.pools for pod in one.pods)

    def settle(self, rounds: int = 80) -> None:
        """Everybody does what there is to do, until there is nothing or for so many rounds."""
        quiet = 0
        for _ in range(rounds):
            before = self.writes, [(pod.name, pod.ready, pod.restarts > 2) for one in self.pools for pod in one.pods]
            self.round()
            after = self.writes, [(pod.name, pod.ready, pod.restarts > 2) for one in self.pools for pod in one.pods]
            quiet = quiet + 1 if before == after else 0
            if quiet > QUIET_ROUNDS:
                return

    def round(self) -> None:
        for one in self.pools:
            self.operate(one)
            self.deployment_controller(one)
            self.replica_sets(one)
        self.scheduler()
        for one in self.pools:
            self.operate(one)
            self.kubelet(one)
            self.count(one)
            self.finish(one)
        self.tick()

    def tick(self) -> None:
        """Time passes; what goes has gone before it is killed."""
        self.now += timedelta(seconds=10)
        for one in self.pools:
            one.pods = [pod for pod in one.pods if pod.deleted_at is None or self.now - pod.deleted_at < LONGEST_END]
        self.foreign += max(0, min(self.free, self.foreign_wants - self.foreign))

    def observed(self, one: Rolling) -> Observed:
        waiting = Counter({SLICE: sum(pod.placed_at is None for each in self.pools for pod in each.live)})
        raw = one.deployment and {
            "metadata": one.deployment["metadata"] | {"generation": one.generation},
            "spec": one.deployment["spec"],
            "status": {
                "observedGeneration": one.observed_generation,
                "replicas": one.counted[0],
                "updatedReplicas": one.counted[1],
            },
        }
        return Observed(
            pool=one.pool,
            profile=make_profile(engine={"extraArgs": list(one.extra_args)}),
            deployment=deployment_facts(raw) if raw else None,
            replica_sets=tuple(
                ReplicaSetFacts(
                    each.template, each.replicas, QUOTA if each.refused else "", each.template, each.revision
                )
                for each in one.sets.values()
            ),
            pods=tuple(pod.facts() for pod in one.pods),
            inventory=SliceInventory(
                (NodeSlices("node-1", "", True, {SLICE: self.slices}, {SLICE: self.slices - self.free}),), waiting
            ),
        )

    def operate(self, one: Rolling) -> Plan:
        """One reconcile."""
        key, observed = pool_key("shop", one.name), self.observed(one)
        may_roll = self.rolling.may_roll(key, observed, (self.now - NOW).total_seconds())
        observed = replace(observed, may_roll=may_roll, spoken_for=self.rolling.spoken_for(key, SLICE))
        planned = plan(observed, INSTALLATION, self.now)
        self.rolling.follow(key, planned, observed)
        one.status = planned.status
        for manifest in planned.apply:
            if manifest["kind"] == "Deployment" and manifest != one.deployment:
                self.writes += 1
                one.generation += 1
                one.deployment = dict(manifest)
                if BROKEN[0] in str(manifest["spec"]["template"]):
                    one.broken.add(_hash(one))
        return planned

    def deployment_controller(self, one: Rolling) -> None:
        """One sync of a RollingUpdate, as Kubernetes does it."""
        if one.deployment is None:
            return
        wanted, (surge, unavailable) = one.deployment["spec"]["replicas"], one.strategy
        newest = one.sets.setdefault(_hash(one), ReplicaSet(_hash(one), 0))
        if newest is not one.newest or not newest.revision:
            newest.revision = 1 + max(each.revision for each in one.sets.values())
        total = sum(each.replicas for each in one.sets.values())
        room = max(0, wanted + surge - total)
        added = min(room, max(0, wanted - newest.replicas))
        newest.replicas = min(wanted, newest.replicas + added)
        if not added:
            self._scale_down(one, newest, wanted - unavailable)
        one.observed_generation = one.generation
        self.count(one)

    def _scale_down(self, one: Rolling, newest: ReplicaSet, least: int) -> None:
        def available(each: ReplicaSet) -> int:
            return sum(pod.ready for pod in one.live if pod.template == each.template)

        old = [each for each in one.sets.values() if each is not newest and each.replicas]
        total = sum(each.replicas for each in one.sets.values())
        may_go = total - least - (newest.replicas - available(newest))
        for each in old:  # those that do not serve go first
            ill = min(max(0, may_go), each.replicas - available(each))
            each.replicas -= ill
            may_go -= ill
        serving = sum(map(available, one.sets.values()))
        for each in old if may_go > 0 else ():
            gone = min(each.replicas, max(0, serving - least))
            each.replicas -= gone
            serving -= gone

    def replica_sets(self, one: Rolling) -> None:
        """Make and delete pods; the quota counts those that still end."""
        for each in one.sets.values():
            mine = [pod for pod in one.live if pod.template == each.template]
            for pod in sorted(mine, key=lambda pod: (pod.placed_at is not None, pod.ready))[
                : max(0, len(mine) - each.replicas)
            ]:
                pod.deleted_at, pod.ready = self.now, False
            each.refused = False
            for _ in range(each.replicas - len(mine)):
                if len(one.pods) >= one.quota:
                    each.refused = True
                    break
                one.made += 1
                one.pods.append(Pod(f"{one.name}-{one.made}", each.template, self.now))
        one.pods = [pod for pod in one.pods if not (pod.deleting and pod.placed_at is None)]
        self.count(one)

    def count(self, one: Rolling) -> None:
        """What the Deployment's status says."""
        for each in one.sets.values():
            each.seen = sum(pod.template == each.template for pod in one.live)
        if one.deployment is not None and one.observed_generation == one.generation:
            updated = one.sets[_hash(one)].seen if _hash(one) in one.sets else 0
            one.counted = sum(each.seen for each in one.sets.values()), updated

    def scheduler(self) -> None:
        for one in self.pools:
            for pod in one.live:
                if pod.placed_at is None:
                    pod.refused = self.free <= 0
                    pod.placed_at = None if pod.refused else self.now

    def kubelet(self, one: Rolling) -> None:
        """Engines come up, or crash."""
        for pod in one.live:
            if pod.placed_at is not None:
                pod.ready = pod.template not in one.broken
                pod.restarts += not pod.ready

    def finish(self, one: Rolling) -> None:
        """Those that go have finished their requests."""
        one.pods = one.live

    def rolled(self, one: Rolling) -> bool:
        """Whether all of it is as the profile says, and nothing else is left."""
        template = str(one.deployment["spec"]["template"]) if one.deployment else ""
        newest = {pod.template for pod in one.pods} == {_hash(one)}
        return newest and one.ready == len(one.pods) == one.replicas and all(arg in template for arg in one.extra_args)


def _hash(one: Rolling) -> str:
    assert one.deployment is not None
    return str(one.deployment["metadata"]["annotations"]["workslice.dev/template-hash"])
