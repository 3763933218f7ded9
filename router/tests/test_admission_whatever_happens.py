"""Admission under any order of requests, endings, departures, time and changes of the table: nothing is lost, doubled or left over."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, consumes, invariant, multiple, rule
from routed_pools import LONG, SHORT, Bench, replicas, view

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.engine_failure import RETRYABLE
from workslice_router.engine_gauges import EngineGauges
from workslice_router.openai_errors import Refusal, Refused
from workslice_router.prompt_prefix import Prefix
from workslice_router.replica_gauges import take_gauges
from workslice_router.replica_load import ServiceLevel
from workslice_router.routing_table import RoutingTable
from workslice_router.waiting_room import Ticket

SPECS = (
    replace(SHORT, queue_depth=3, queue_wait=20.0, cold_start_wait=60.0, uid="1", class_prompt_tokens=50),
    replace(LONG, queue_depth=3, queue_wait=40.0, cold_start_wait=10.0, uid="2", priority=1),
    replace(SHORT, key="serving/canary", weight=10, uid="3", max_concurrent=1),
)
KEYS = st.sampled_from([spec.key for spec in SPECS])
REPLICAS = st.sets(st.sampled_from(["a", "b", "c"]))


@dataclass(eq=False)
class Request:
    """A client that remembers everything it was told."""

    bench: Bench
    caller: str = "anna"
    excluded: frozenset[str] = frozenset()
    ticket: Ticket | None = None
    lease: Lease | None = None
    granted_leases: list[Lease] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    left: bool = False
    settles_at_once: bool = False

    def submit(self, session: bytes | None = None, **facts: Any) -> None:
        try:
            plan = self.bench.admission.plan(view(**facts), None, session)
            placed = self.bench.admission.submit(plan, self, body_bytes=100, excluded=self.excluded)
        except Refused as refused:
            self.refusals.append(refused.refusal)
            return
        if isinstance(placed, Lease):
            self.granted(placed)
        else:
            self.ticket = placed

    def granted(self, lease: Lease) -> None:
        assert not self.left, "told after it had left"
        assert not self.granted_leases, "granted twice"
        assert not self.refusals, "granted after a refusal"
        spec = lease.replica.spec
        assert lease.replica.listed, "granted a replica that is gone"
        assert spec.ready, "granted a replica that is not ready"
        assert not spec.draining, "granted a replica that drains"
        others = any(
            one.spec.ready and not one.spec.draining for one in lease.pool.replicas if one.uid not in self.excluded
        )
        assert spec.uid not in self.excluded or not (others and self.ticket is None), (
            "granted what has failed it already"
        )
        self.ticket = None
        self.lease = lease
        self.granted_leases.append(lease)
        if self.settles_at_once:
            lease.settle(Outcome.OK)

    def refused(self, cause: Refusal) -> None:
        assert not self.left, "told after it had left"
        assert not self.granted_leases, "refused after a grant"
        assert not self.refusals, "refused twice"
        self.ticket = None
        self.refusals.append(cause)

    @property
    def waits(self) -> bool:
        return not (self.left or self.granted_leases or self.refusals)

    @property
    def runs(self) -> bool:
        return any(lease.open for lease in self.granted_leases)


class Admitting(RuleBasedStateMachine):
    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(RoutingTable(), max_queued_bytes=600)
        self.all: list[Request] = []
        for spec, uids in zip(SPECS, ("a", "b", "c"), strict=True):
            self.put(spec.key, {uids}, 100, 1)

    def put(self, key: str, uids: set[str], weight: int, desired: int) -> None:
        spec = next(one for one in SPECS if one.key == key)
        self.bench.table.put_pool(replace(spec, weight=weight, desired_replicas=desired))
        self.bench.table.put_replicas(key, replicas(*(f"{key}/{uid}" for uid in sorted(uids))))
        self.bench.table.commit()

    @rule(
        target=requests,
        tokens=st.sampled_from([10, 1500, 7000, 9000]),
        count=st.integers(1, 6),
        at_once=st.booleans(),
        retry=st.booleans(),
        chance=st.floats(0, 0.99),
        caller=st.sampled_from(["anna", "bert"]),
        session=st.sampled_from([None, b"s", b"t"]),
        prefix=st.sampled_from([None, Prefix(600, (1,)), Prefix(1100, (1, 2)), Prefix(2100, (1, 3, 4))]),
    )
    def ask(
        self,
        tokens: int,
        count: int,
        at_once: bool,
        retry: bool,
        chance: float,
        caller: str,
        session: bytes | None,
        prefix: Prefix | None,
    ) -> MultipleResults[Request]:
        self.bench.random = chance
        excluded = frozenset({"serving/short/a", "serving/canary/c"}) if retry else frozenset[str]()
        asked = [Request(self.bench, caller, excluded, settles_at_once=at_once) for _ in range(count)]
        self.all += asked
        for request in asked:
            request.submit(session, max_tokens=tokens, prefix=prefix)
        return multiple(*asked)

    @rule(request=requests, outcome=st.sampled_from(Outcome))
    def end(self, request: Request, outcome: Outcome) -> None:
        if request.lease is not None:
            request.lease.settle(outcome)

    @rule(target=requests, request=consumes(requests), outcome=st.sampled_from(sorted(RETRYABLE, key=str)))
    def fail_and_try_again(self, request: Request, outcome: Outcome) -> Request:
        """As an exchange does: the place is given back first, then another replica is asked for."""
        lease = request.lease
        if lease is None or not lease.open:
            return request
        again = Request(self.bench, excluded=request.excluded | {lease.replica.uid})
        lease.settle(outcome)
        self.all.append(again)
        again.submit(max_tokens=lease.plan.work)
        return again

    @rule(key=KEYS, uid=st.sampled_from(["a", "b", "c"]), hangs=st.booleans())
    def ask_whether_it_lives(self, key: str, uid: str, hangs: bool) -> None:
        pool = self.bench.table.pools.get(key)
        for replica in pool.replicas if pool is not None else ():
            if replica.uid == f"{key}/{uid}" and pool is not None:
                change = self.bench.admission.hold_back if hangs else self.bench.admission.well_again
                change(pool, replica)

    @rule(request=requests)
    def answer(self, request: Request) -> None:
        if request.lease is not None:
            request.lease.answered()

    @rule(request=consumes(requests))
    def leave(self, request: Request) -> None:
        if request.waits:
            request.left = True
        if request.ticket is not None:
            request.ticket.cancel()
            request.ticket.cancel()
        if request.lease is not None:
            request.lease.settle(Outcome.CLIENT_GONE)

    @rule(seconds=st.sampled_from([0.1, 1.0, 6.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.now += seconds
        self.bench.admission.tick()

    @rule(key=KEYS, uids=REPLICAS, weight=st.sampled_from([0, 10, 100]), desired=st.sampled_from([0, 2]))
    def change(self, key: str, uids: set[str], weight: int, desired: int) -> None:
        self.put(key, uids, weight, desired)

    @rule(key=KEYS, draining=st.booleans())
    def all_replicas_become_unready(self, key: str, draining: bool) -> None:
        uids = [f"{key}/a", f"{key}/b"]
        self.bench.table.put_replicas(key, replicas(*uids, ready=draining, draining=draining))
        self.bench.table.commit()

    @rule(key=KEYS, name=st.sampled_from(["short", "long", "other"]), conflict=st.booleans())
    def rename_the_class(self, key: str, name: str, conflict: bool) -> None:
        pool = self.bench.table.pools.get(key)
        if pool is not None:
            self.bench.table.put_pool(replace(pool.spec, class_name=name), serving=not conflict)
            self.bench.table.commit()

    @rule(key=KEYS, level=st.sampled_from([None, ServiceLevel(0.5, 0.05), ServiceLevel(12.0, 0.1)]))
    def change_the_service_level(self, key: str, level: ServiceLevel | None) -> None:
        pool = self.bench.table.pools.get(key)
        if pool is not None:
            self.bench.table.put_pool(replace(pool.spec, level=level), serving=pool.serving)
            self.bench.table.commit()

    @rule(key=KEYS, strict=st.booleans())
    def change_the_spillover(self, key: str, strict: bool) -> None:
        pool = self.bench.table.pools.get(key)
        if pool is not None:
            self.bench.table.put_pool(replace(pool.spec, strict=strict), serving=pool.serving)
            self.bench.table.commit()

    @rule(
        key=KEYS,
        others=st.none() | st.integers(0, 9),
        used=st.sampled_from([None, 0.2, 0.99]),
        kv_tokens=st.sampled_from([None, 1000, 10**6]),
    )
    def engines_show_their_load(self, key: str, others: int | None, used: float | None, kv_tokens: int | None) -> None:
        pool = self.bench.table.pools.get(key)
        if pool is None:
            return
        for replica in pool.replicas:
            own = replica.sequences
            gauges = EngineGauges(own, others, used, kv_tokens) if others is not None else None
            take_gauges(pool, replica, gauges, own, self.bench.now)
            self.bench.admission.places_changed(pool)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        self.bench.table.remove_pool(key)
        self.bench.table.commit()

    @invariant()
    def accounts_are_what_runs_and_waits(self) -> None:
        admission = self.bench.admission
        running = [lease for request in self.all for lease in request.granted_leases if lease.open]
        waiting = [request for request in self.all if request.waits]
        assert admission.in_flight == len(running)
        assert admission.waiting == len(waiting)
        assert admission.queued_bytes == 100 * len(waiting) <= 600
        for pool in {*self.bench.table.pools.values(), *(lease.pool for lease in running)}:
            here = [lease for lease in running if lease.pool is pool]
            assert pool.running == len(here)
            assert sum(replica.in_flight for replica in pool.replicas) == len(here)
            assert sum(replica.sequences for replica in pool.replicas) == len(here)
            assert sum(replica.outstanding_tokens for replica in pool.replicas) == sum(one.plan.work for one in here)
            assert all(
                len(replica.load.prompts) + replica.load.answering == replica.in_flight for replica in pool.replicas
            )
            assert all(replica.dispatch_cap >= 1 for replica in pool.replicas)
            assert all(replica.in_flight <= pool.spec.max_concurrent for replica in pool.replicas)
            assert len(pool.queue) <= pool.spec.queue_depth

    @invariant()
    def nobody_waits_beside_a_free_replica_for_longer_than_a_tick(self) -> None:
        self.bench.admission.tick()
        for pool in self.bench.table.pools.values():
            if not (pool.queue and pool.serving and pool.spec.weight):
                continue
            free = [
                replica
                for replica in pool.replicas
                if replica.listed
                and replica.spec.ready
                and not replica.spec.draining
                and replica.in_flight < min(pool.spec.max_concurrent, replica.dispatch_cap)
                and not replica.health.ejected
                and replica.health.rest_until <= self.bench.now
            ]
            waiting = [
                request
                for request in self.all
                if request.waits and request.ticket is not None and request.ticket.pool is pool
            ]
            assert not free or all(request.excluded for request in waiting)

    def teardown(self) -> None:
        for _ in range(60):
            for request in self.all:
                if request.lease is not None:
                    request.lease.settle(Outcome.OK)
            self.bench.now += 5.0
            self.bench.admission.tick()
        assert not any(request.waits for request in self.all), "somebody waits for ever"
        self.bench.assert_idle()


TestAdmission = Admitting.TestCase
TestAdmission.settings = settings(max_examples=60, stateful_step_count=40)
