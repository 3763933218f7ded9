"""One pool's reconciler on a fake API, with a clock and with signals that the test sets."""

from datetime import UTC, datetime, timedelta
from typing import Any

from fake_kube import FakeKube

from workslice_api.conditions import find_condition
from workslice_api.pool import WorkspacePool
from workslice_operator.event_writer import EventWriter
from workslice_operator.found_models import FoundModels
from workslice_operator.installation import Installation
from workslice_operator.keys import Key, pool_key
from workslice_operator.load_observed import shared_inventory
from workslice_operator.metrics import Metrics
from workslice_operator.model_claims import ModelClaims
from workslice_operator.observed import EngineLoad, QueueSignal, RouterReport
from workslice_operator.readable import PoolList
from workslice_operator.reconciler import PoolReconciler
from workslice_operator.rolling_pools import RollingPools

KEY = pool_key("shop", "chat")


class World:
    """One reconciler on a fake API with a clock and a queue signal that the test sets."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.kube = FakeKube(*objects)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.demand: QueueSignal | None = None
        self.report: RouterReport | None = None
        self.engines: dict[str, EngineLoad] = {}
        self.woken: list[Key] = []
        self.metrics = Metrics()
        self.start()

    def start(self, rolled_at_once: int = 50) -> None:
        """A new process: nothing is remembered."""
        self.rolling = RollingPools(self.woken.append, rolled_at_once)
        self.reconciler = PoolReconciler(
            kube=self.kube,
            live=self.kube,
            parse=WorkspacePool.model_validate,
            installation=Installation("workslice", {"app": "router"}, {"app": "operator"}),
            rolling=self.rolling,
            claims=ModelClaims(PoolList(self.kube), {}, self.woken.append),
            inventory=shared_inventory(self.kube),
            signal=lambda _: self.demand,
            routers=lambda _: self.report,
            engine=self.ask_engine,
            events=EventWriter(self.kube, "test", lambda: self.now),
            metrics=self.metrics,
            wake=self.woken.append,
            clock=lambda: self.now,
            monotonic=lambda: self.now.timestamp(),
            found=FoundModels(self.woken.append),
        )

    async def ask_engine(self, address: str) -> EngineLoad | None:
        return self.engines.get(address)

    async def reconcile(self, after: float = 0.0) -> float | None:
        self.now += timedelta(seconds=after)
        self.kube.writes.clear()
        self.woken.clear()
        return await self.reconciler.reconcile(KEY)

    @property
    def pool(self) -> WorkspacePool:
        return WorkspacePool.model_validate(self.kube.objects["WorkspacePool", "shop", "chat"])

    def reason(self, type_: str) -> str:
        found = find_condition(self.pool.status.conditions, type_)
        assert found is not None
        return found.reason
