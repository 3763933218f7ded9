"""Builds routing tables for tests: pools, replicas, an admission with a hand-moved clock, and clients that remember what they heard."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from workslice_router.admission import Admission, Lease
from workslice_router.estimate import Estimator
from workslice_router.metrics import Metrics
from workslice_router.openai_errors import Refusal
from workslice_router.request_body import RequestView
from workslice_router.routing_table import PoolSpec, ReplicaSpec, RoutingTable
from workslice_router.text_size import TextKind
from workslice_router.waiting_room import Ticket

SHORT = PoolSpec(
    key="serving/short", model="tiny", class_name="short", class_tokens=2000, context_tokens=2000, max_concurrent=2
)
LONG = PoolSpec(
    key="serving/long", model="tiny", class_name="long", class_tokens=8000, context_tokens=8000, max_concurrent=2
)


def replicas(*uids: str, ready: bool = True, draining: bool = False) -> list[ReplicaSpec]:
    return [ReplicaSpec(uid, "10.0.0.1", 8000, ready=ready, draining=draining) for uid in uids]


def table_of(*pools: tuple[PoolSpec, Iterable[ReplicaSpec]]) -> RoutingTable:
    table = RoutingTable()
    for spec, listed in pools:
        table.put_pool(spec)
        table.put_replicas(spec.key, listed)
    table.synced = True
    table.commit()
    return table


def view(**changes: Any) -> RequestView:
    plain = RequestView(
        model="tiny",
        stream=False,
        prompt_size=100,
        prompt_least=0,
        kind=TextKind.PROSE,
        media=0,
        prompt_tokens=0,
        prompts=1,
        max_tokens=100,
        choices=1,
        include_usage=False,
        has_cache_salt=False,
        has_priority=False,
    )
    return replace(plain, **changes)


@dataclass(eq=False)
class Asker:
    """A client of admission."""

    caller: str = "anna"
    leases: list[Lease] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def granted(self, lease: Lease) -> None:
        self.leases.append(lease)

    def refused(self, cause: Refusal) -> None:
        self.refusals.append(cause)


class Bench:
    """An admission over a table, whose clock and chance the test sets."""

    def __init__(self, table: RoutingTable, *, first_answer: int = 512, **settings: Any) -> None:
        self.now = 1000.0
        self.random = 0.0
        self.table = table
        self.metrics = Metrics()
        self.estimator = Estimator(first_answer)
        self.admission = Admission(
            table, self.estimator, self.metrics, lambda: self.now, lambda: self.random, **settings
        )

    def ask(
        self,
        requested_class: str | None = None,
        excluded: Iterable[str] = (),
        body_bytes: int = 100,
        caller: str = "anna",
        session: bytes | None = None,
        **changes: Any,
    ) -> tuple[Asker, Lease | Ticket]:
        asker = Asker(caller)
        plan = self.admission.plan(view(**changes), requested_class, session)
        placed = self.admission.submit(plan, asker, body_bytes=body_bytes, excluded=frozenset(excluded))
        return asker, placed

    def lease(self, **changes: Any) -> Lease:
        _, placed = self.ask(**changes)
        assert isinstance(placed, Lease)
        return placed

    def wait(self, **changes: Any) -> tuple[Asker, Ticket]:
        asker, placed = self.ask(**changes)
        assert isinstance(placed, Ticket)
        return asker, placed

    def assert_idle(self) -> None:
        """Nothing is left anywhere."""
        assert self.admission.in_flight == 0
        assert self.admission.waiting == 0
        assert self.admission.queued_bytes == 0
        for pool in self.table.pools.values():
            assert (pool.running, len(pool.queue), pool.queue.size, pool.queue.tokens) == (0, 0, 0, 0)
            for one in pool.replicas:
                assert (one.in_flight, one.outstanding_tokens, one.sizes, one.sequences) == (0, 0, 0, 0)
                assert (one.load.prompts, one.load.answering, one.load.haste, one.load.held_tokens) == ({}, 0, 0, 0)
