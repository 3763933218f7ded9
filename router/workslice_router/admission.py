"""Places requests: plan, grant at once or queue, settle. All accounting of pools and replicas changes here and nowhere else."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final, Protocol

from workslice_router.affinity import Affinity
from workslice_router.choose import (
    best_replica,
    has_hope,
    has_live_replica,
    has_place,
    pools_in_order,
    pools_to_share,
    ready,
)
from workslice_router.class_line import Waiter
from workslice_router.ejection import HEALTHY, Outcome, held_back, sent, settled
from workslice_router.estimate import Estimator
from workslice_router.learned_pace import faded_pace, learned_pace
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.pool_queue import PoolQueue
from workslice_router.replica_cap import renew_caps
from workslice_router.replica_load import Work
from workslice_router.request_body import RequestView
from workslice_router.request_plan import Plan, current_plan, larger_plan, no_replicas, plan_request
from workslice_router.routing_table import Pool, Replica, RoutingTable
from workslice_router.soft_choice import best_place
from workslice_router.waiting_room import Client, Ticket, WaitingRoom, avoided, cost

_CAP_SECONDS: Final = 1.0
_NOTHING_DONE: Final = frozenset(Outcome) - {Outcome.OK, Outcome.CLIENT_GONE, Outcome.TIMEOUT}
"""Outcomes after which nobody is charged for what an engine may have done."""


class Observer(Protocol):
    """Counts what admission decides."""

    def queued(self, pool: str, class_name: str, seconds: float) -> None:
        """A request left a queue for a replica after this wait."""

    def ejected(self, pool: str) -> None:
        """A replica was given a rest."""


class Lease:
    """A request's place on a replica, from the grant until `settle`. It keeps its pool and replica, whatever the table does."""

    def __init__(
        self,
        admission: "Admission",
        plan: Plan,
        pool: Pool,
        replica: Replica,
        queued_seconds: float,
        probe: bool,
        work: Work,
        granted_at: float,
    ) -> None:
        self.admission = admission
        self.plan = plan
        self.pool = pool
        self.replica = replica
        self.queued_seconds = queued_seconds
        self.probe = probe
        self.work = work
        self.granted_at = granted_at
        self.open = True
        self.turn: tuple[PoolQueue, Waiter] | None = None
        """Where and as what it waited, until it is known what it cost its caller."""

    @property
    def class_name(self) -> str:
        """The request's class; its pool may be of another one that took it over."""
        return self.plan.chosen.name

    @property
    def priority(self) -> int:
        """Priority inside the engine."""
        return self.plan.chosen.priority

    def answered(self) -> None:
        """The engine has begun to answer: a replica that was ejected is well again, long before the answer ends. Others may be granted
        before this returns.
        """
        if not self.open:
            return
        self.admission._first_token(self)
        if self.probe:
            self.probe = False
            self.admission.well_again(self.pool, self.replica)

    def used(self, prompt_tokens: int, answer_tokens: int) -> None:
        """What the request came to, as its engine counted: if it had to wait, its caller is charged for that instead of the estimate."""
        if self.turn is not None:
            (queue, waiter), self.turn = self.turn, None
            spent = cost(prompt_tokens, answer_tokens)
            queue.charge(waiter, prompt_tokens + answer_tokens - waiter.tokens, spent - waiter.cost)

    def settle(self, outcome: Outcome) -> None:
        """Give the place back; only the first call counts. Others may be granted or refused before it returns."""
        if self.open:
            self.open = False
            if self.turn is not None and outcome in _NOTHING_DONE:
                self.used(0, 0)
            self.admission._settle(self, outcome)

    def settle_to_retry(self, plan: Plan, outcome: Outcome) -> Plan:
        """Settle, and say by which plan its request asks for another place: the time at an engine that failed it counts as no wait, and
        half of the longest wait is always left.
        """
        self.settle(outcome)
        waited = min(self.granted_at - plan.arrived, self.pool.spec.queue_wait / 2)
        return replace(plan, arrived=self.admission._clock() - waited)


class Admission:
    """Decides for every request of this router; synchronous, single-threaded, with the clock and chance passed in."""

    def __init__(
        self,
        table: RoutingTable,
        estimator: Estimator,
        observer: Observer,
        clock: Callable[[], float],
        random: Callable[[], float],
        *,
        max_queued_bytes: int = 256 * 2**20,
    ) -> None:
        self.table = table
        self.in_flight = 0
        """Requests running on all replicas, those of removed pools included."""
        self._estimator = estimator
        self._observer = observer
        self._clock = clock
        self._random = random
        self._room = WaitingRoom(table, random, max_queued_bytes)
        self._queues = self._room.pools
        self._next_caps = 0.0
        self._to_pump: dict[Pool, None] = {}
        self._pumping = False
        self._affinity = Affinity()
        table.on_change = self._table_changed

    @property
    def waiting(self) -> int:
        """Requests in all queues."""
        return self._room.waiting

    @property
    def queued_bytes(self) -> int:
        """Bytes of the bodies of all requests in queues."""
        return self._room.queued_bytes

    def plan(self, view: RequestView, requested_class: str | None, session: bytes | None = None) -> Plan:
        """Find the model and the class of a request; `session` is what its client calls its session.

        Raises:
            Refused: unknown model (404), unknown class or a request that fits nowhere (400).
        """
        return plan_request(self.table, self._estimator, view, requested_class, self._clock(), session)

    def larger(self, lease: Lease, view: RequestView) -> Plan | None:
        """A plan for a larger pool after the engine of `lease` found the prompt too long for its context; None when there is none.
        Since it goes up only, a request cannot go on for ever.

        Raises:
            Refused: what the request needs is no longer there.
        """
        counted = lease.pool.spec.context_tokens + 1
        self._estimator.learn_least(lease.pool.spec.model, view, counted)
        return larger_plan(self.table, lease.plan, counted)

    def submit(
        self, plan: Plan, client: Client, *, body_bytes: int, excluded: Collection[str] = (), may_wait: bool = True
    ) -> Lease | Ticket:
        """Reserve a replica outside `excluded` (UIDs that this request has tried), or join a queue, if it may.

        Raises:
            Refused: the queue is full (429), or nobody can serve the request, or not at once if it may not wait (503).
        """
        plan = current_plan(self.table, plan)
        now = self._clock()
        class_only, ties, level = plan.stays_in_class, plan.ties, plan.chosen.level
        chance = ties.chance if ties is not None and ties.session else self._random()
        order = pools_in_order(plan.routes, plan.chosen, plan.prompt_tokens, plan.total, plan.room, class_only, chance)
        if order and not any(ready(replica) for replica in order[0].replicas):
            self.table.count_asked_in_vain(order[0])  # a pool that sleeps must hear of it
        favourite = self._affinity.favourite(ties, order[0], now) if ties is not None and order else None
        if level is not None and order and order[0].spec.class_name == plan.chosen.name:
            pools = pools_to_share(plan.routes, plan.chosen, order, plan.room, class_only, excluded, now)
            prompts, known = plan.prompt_work, self._affinity.known(ties) if ties is not None else None
            answers = plan.work - prompts
            shared = best_place(pools, plan.chosen, prompts, answers, level, excluded, now, known, favourite)
            if shared is not None:
                return self._grant(plan, *shared, 0.0, now)
        for pool in order:
            if not pool.queue:
                replica = best_replica(pool, excluded, now, favourite, plan.prompt_work)
                if replica is not None:
                    return self._grant(plan, pool, replica, 0.0, now)
        if not may_wait:
            raise Refused(no_replicas(plan))
        return self._wait(plan, order, client, body_bytes, excluded, now)

    def _wait(
        self, plan: Plan, order: list[Pool], client: Client, body_bytes: int, excluded: Collection[str], now: float
    ) -> Ticket:
        """Join the first queue of `order` where there is hope: where a replica is alive rather than where one has yet to come. When it
        takes no more, only pools of the same class are asked further, so that no class fills the queues of another.
        """
        hopeful = [pool for pool in order if has_hope(pool, excluded)]
        if len(hopeful) > 1:
            hopeful.sort(key=lambda pool: not has_live_replica(pool, excluded))
        first_refusal = None
        for pool in hopeful:
            if first_refusal is None or pool.spec.class_name == plan.chosen.name:
                try:
                    return self._room.join(plan, pool, client, body_bytes, excluded, now)
                except Refused as refused:
                    first_refusal = first_refusal or refused
        if first_refusal is not None:
            raise first_refusal
        if excluded:
            raise Refused(refusal(Reason.ENGINE_UNREACHABLE, retry_after=1, model=plan.routes.name))
        raise Refused(no_replicas(plan))

    def tick(self) -> None:
        """Refuse those who have waited too long, use replicas whose rest is over, and forget; call it about ten times a second."""
        now = self._clock()
        for pool in self.table.pools.values():
            pool.pace = faded_pace(pool.pace, pool.spec.first_pace, now)
        if now >= self._next_caps:
            self._next_caps = now + _CAP_SECONDS
            for pool in self.table.pools.values():
                if renew_caps(pool, now):
                    self.table.changed.add(pool)
        for pool in list(self._queues):
            for ticket in self._room.take_expired(pool, now):
                ticket.client.refused(self._room.waited_in_vain(ticket, now))
            self._pump(pool)
            self.table.changed.add(pool)

    def rejected(self, cause: Refusal) -> None:
        """A request ends with this refusal: nothing else has helped it."""
        pool = self.table.pools.get(cause.pool)
        if pool is not None:
            pool.rejected += 1
            self.table.changed.add(pool)

    def refuse_all_waiting(self, cause: Refusal) -> None:
        """Empty every queue with the same answer, when the router stops."""
        for pool in list(self._queues):
            for ticket in self._room.take_all(pool):
                ticket.client.refused(cause)

    def _grant(self, plan: Plan, pool: Pool, replica: Replica, queued_seconds: float, now: float) -> Lease:
        probe = replica.health.ejected
        if replica.health is not HEALTHY:
            replica.health = sent(replica.health, now)
        replica.in_flight += 1
        replica.outstanding_tokens += plan.work
        replica.sizes += plan.size
        replica.sequences += plan.sequences
        replica.dispatched += 1
        pool.running += 1
        pool.asked += 1
        self.in_flight += 1
        self.table.changed.add(pool)
        work = Work(plan.prompt_work, plan.work - plan.prompt_work, plan.chosen.level)
        if plan.ties is not None:
            self._affinity.sent(plan.ties, replica, work, now)
        replica.load.add(work, now, pool.pace)
        return Lease(self, plan, pool, replica, queued_seconds, probe, work, now)

    def _first_token(self, lease: Lease) -> None:
        pool, load = lease.pool, lease.replica.load
        if load.answered(lease.work):
            pool.pace = learned_pace(pool.pace, pool.spec.first_pace, load, lease.work, self._clock())

    def _settle(self, lease: Lease, outcome: Outcome) -> None:
        pool, replica = lease.pool, lease.replica
        replica.in_flight -= 1
        replica.outstanding_tokens -= lease.plan.work
        replica.sizes -= lease.plan.size
        replica.sequences -= lease.plan.sequences
        replica.load.remove(lease.work)
        pool.running -= 1
        self.in_flight -= 1
        self.table.changed.add(pool)
        now = self._clock()
        if outcome is not Outcome.OK or replica.health is not HEALTHY:
            before = replica.health
            replica.health = settled(before, outcome, now, lease.probe)
            if replica.health.ejections > before.ejections:
                self._observer.ejected(pool.key)
        if not replica.listed:
            self.table.forget_idle(pool, replica)
        if self._queues:
            self._pump(pool)

    def hold_back(self, pool: Pool, replica: Replica) -> None:
        """The replica hangs: nothing goes there for a while. Others may be granted or refused before this returns."""
        if not replica.health.ejected:
            self._observer.ejected(pool.key)
        now = replica.load.doubted = self._clock()
        replica.health = held_back(replica.health, now)
        self.places_changed(pool)

    def well_again(self, pool: Pool, replica: Replica) -> None:
        """The replica takes requests like any other. Others may be granted before this returns."""
        replica.health = HEALTHY
        self.places_changed(pool)

    def places_changed(self, pool: Pool) -> None:
        """Its replicas may take more or less than before. Others may be granted or refused before this returns."""
        self.table.changed.add(pool)
        if self._queues:
            self._pump(pool)

    def _pump(self, pool: Pool) -> None:
        """Give free places of `pool` to those who wait for it or for its siblings. Clients that settle or leave meanwhile only note
        their pools: the outermost call serves them.
        """
        self._to_pump[pool] = None
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._to_pump:
                current = next(iter(self._to_pump))
                del self._to_pump[current]
                self._fill(current)
        finally:
            self._pumping = False

    def _fill(self, pool: Pool) -> None:
        while self._queues and pool.serving and pool.spec.weight:
            now = self._clock()
            if not has_place(pool, (), now):
                break
            ticket = self._room.take_next(pool, now)
            if ticket is None:
                return
            excluded = avoided(pool, ticket) if ticket.excluded else ()
            replica = self._best(pool, ticket.plan, excluded, now) or self._best(pool, ticket.plan, (), now)
            assert replica is not None
            waiter, waited = ticket.waiter, now - ticket.waiter.enqueued
            self._observer.queued(pool.key, ticket.plan.chosen.name, waited)
            lease = self._grant(ticket.plan, pool, replica, waited, now)
            waiter.item, lease.turn = None, (ticket.pool.queue, waiter)
            ticket.client.granted(lease)
        if pool.queue and not has_hope(pool, ()):
            self._place_again(pool)

    def _best(self, pool: Pool, plan: Plan, excluded: Collection[str], now: float) -> Replica | None:
        """The replica of one pool that a request gets which has waited for it."""
        ties, level, prompts = plan.ties, plan.chosen.level, plan.prompt_work
        favourite = self._affinity.favourite(ties, pool, now) if ties is not None else None
        if level is None:
            return best_replica(pool, excluded, now, favourite, prompts)
        known, answers = self._affinity.known(ties) if ties is not None else None, plan.work - prompts
        place = best_place((pool,), plan.chosen, prompts, answers, level, excluded, now, known, favourite)
        return place[1] if place is not None else None

    def _table_changed(self, pools: Collection[Pool]) -> None:
        for pool in pools:
            if pool.queue and not (pool.serving and pool.spec.weight):
                self._place_again(pool)
            if self._queues:
                self._pump(pool)

    def _place_again(self, pool: Pool) -> None:
        """The pool can no longer serve those who wait for it: find them another, or say that there is none."""
        for ticket in self._room.take_all(pool):
            try:
                placed = self.submit(
                    ticket.plan, ticket.client, body_bytes=ticket.waiter.size, excluded=ticket.excluded
                )
            except Refused as refused:
                ticket.client.refused(refused.refusal)
                continue
            if isinstance(placed, Lease):
                placed.queued_seconds = self._clock() - ticket.waiter.enqueued
                self._observer.queued(placed.pool.key, placed.class_name, placed.queued_seconds)
                ticket.client.granted(placed)
            else:
                placed.waiter.enqueued = ticket.waiter.enqueued
                ticket.pool, ticket.waiter = placed.pool, placed.waiter
                ticket.waiter.item = ticket
