"""All waiting lines of a router: who may join one, who has the next free place, who has waited in vain. Pure but for the accounts of
lines and pools, which it changes.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from workslice_router.choose import best_replica, has_hope, has_live_replica, has_place, ready
from workslice_router.class_line import Waiter
from workslice_router.first_replica import SOON, seconds_to_first_replica
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.request_plan import Plan, holds, no_replicas
from workslice_router.routing_table import Pool, RoutingTable

if TYPE_CHECKING:
    from workslice_router.admission import Lease

_LONGEST_RETRY_AFTER: Final = 60.0
_JITTER: Final = 0.25
"""Clients that were refused together should not come back together."""
_OUTPUT_COST: Final = 2
"""A token of an answer costs its caller as much as so many of a prompt."""


class Client(Protocol):
    """A request that may have to wait. Exactly one of `granted` and `refused` is called, once, later, unless its ticket is cancelled
    before. Neither may raise.
    """

    @property
    def caller(self) -> str:
        """Among whom places are shared fairly."""

    def granted(self, lease: "Lease") -> None:
        """A replica is reserved: send the request there."""

    def refused(self, cause: Refusal) -> None:
        """Waiting was in vain."""


@dataclass(eq=False, slots=True)
class Ticket:
    """A request's place in a queue."""

    room: "WaitingRoom"
    pool: Pool
    waiter: Waiter
    plan: Plan
    client: Client
    excluded: Collection[str]
    """Replicas that have failed this request already."""

    def cancel(self) -> None:
        """Leave the queue: the client is told nothing any more."""
        self.room.leave(self)


class WaitingRoom:
    """The queues of all pools."""

    def __init__(self, table: RoutingTable, random: Callable[[], float], max_queued_bytes: int) -> None:
        self.queued_bytes = 0
        self.pools: dict[Pool, None] = {}
        """Those for which somebody waits."""
        self._joining: set[Waiter] = set()
        """Those whose clients do not know yet that they wait: they cannot be told that they no longer do."""
        self._table = table
        self._random = random
        self._max_queued_bytes = max_queued_bytes

    @property
    def waiting(self) -> int:
        """Requests in all queues."""
        return sum(len(pool.queue) for pool in self.pools)

    def join(
        self, plan: Plan, pool: Pool, client: Client, body_bytes: int, excluded: Collection[str], now: float
    ) -> Ticket:
        """Wait for a place in `pool`. When its line is full, a caller that has much more waiting than this one makes room: its last
        request is refused before this returns.

        Raises:
            Refused: there is no room, or its turn would come too late.
        """
        queue, chosen = pool.queue, plan.chosen
        if pool.missed_since is None and not any(ready(one) for one in pool.replicas):
            pool.missed_since = now
        pushed_out = None
        if not self._has_room(pool, plan.work, body_bytes):
            caller = client.caller
            pushed_out = queue.last_of_the_greediest(caller)
            if pushed_out in self._joining:
                pushed_out = None
            if pushed_out is None or not self._has_room(pool, plan.work, body_bytes, pushed_out):
                raise Refused(self._queue_full(plan, pool, caller, now))
        wait = longest_wait(pool)
        if not has_place(pool, excluded, now):  # else those who wait cannot use it, and say nothing about this one
            self._refuse_what_would_wait_in_vain(plan, pool, client.caller, now)
        waiter = Waiter(
            chosen.name,
            chosen.priority,
            client.caller,
            plan.arrived + (pool.spec.queue_wait if chosen.level is None else chosen.level.first_token),
            plan.arrived + wait,
            now,
            body_bytes,
            max(1, plan.work),
            cost(plan.prompt_work, plan.work - plan.prompt_work),
        )
        ticket = waiter.item = Ticket(self, pool, waiter, plan, client, excluded)
        queue.push(waiter)
        self.queued_bytes += body_bytes
        self.pools[pool] = None
        self._table.changed.add(pool)
        if pushed_out is not None:
            last: Ticket = pushed_out.item
            self.leave(last)
            self._joining.add(waiter)
            last.client.refused(self._queue_full(last.plan, pool, pushed_out.caller, now))  # which may ask for less
            self._joining.discard(waiter)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """The client has gone, or is told otherwise."""
        if ticket.pool.queue.remove(ticket.waiter):
            self._left(ticket.pool, ticket.waiter)

    def take_next(self, pool: Pool, now: float) -> Ticket | None:
        """Who gets a free place of `pool`: who waits for it, else who waits for one of its siblings."""
        for source in (pool, *pool.siblings):
            if not source.queue:
                continue
            waiter = source.queue.pop(
                lambda one: (
                    (source is pool or self._may_take(pool, one.item.plan))  # noqa: B023
                    and (not one.item.excluded or best_replica(pool, avoided(pool, one.item), now) is not None)
                ),
                now,
            )
            if waiter is not None:
                self._left(source, waiter)
                ticket: Ticket = waiter.item
                return ticket
        return None

    def take_all(self, pool: Pool) -> list[Ticket]:
        """Everyone who waits for `pool`."""
        waiters = pool.queue.pop_all()
        for waiter in waiters:
            self._left(pool, waiter)
        return [waiter.item for waiter in waiters]

    def take_expired(self, pool: Pool, now: float) -> list[Ticket]:
        """Those whose time is over. It may have become longer while they waited: when the last replica has gone, or the first come."""
        if not _may_give_places(pool):
            pool.queue.no_places_until(now)
        wait = longest_wait(pool)
        expired = pool.queue.pop_expired(now, lambda one: one.item.plan.arrived + wait)
        for waiter in expired:
            self._left(pool, waiter)
        return [waiter.item for waiter in expired]

    def waited_in_vain(self, ticket: Ticket, now: float) -> Refusal:
        """What to tell one whose time is over."""
        pool, waiter = ticket.pool, ticket.waiter
        if not any(ready(replica) for replica in pool.replicas):
            return no_replicas(ticket.plan, self._after_start(pool, now))
        after = self._retry_after(ticket.plan, pool, waiter.caller, now)
        return refusal(Reason.QUEUE_TIMEOUT, retry_after=after, pool=pool.key, seconds=round(now - waiter.enqueued, 1))

    def _refuse_what_would_wait_in_vain(self, plan: Plan, pool: Pool, caller: str, now: float) -> None:
        """An answer at once is worth more than the same one after the longest wait. Without a ready replica nothing is to be expected."""
        if not any(ready(replica) for replica in pool.replicas):
            return
        expected = pool.queue.expected_wait(plan.chosen.name, plan.chosen.priority, caller, now)
        limit = pool.spec.queue_wait
        if expected is None or now + expected <= plan.arrived + limit:
            return
        after = self._jittered(expected)
        raise Refused(
            refusal(Reason.WAIT_TOO_LONG, retry_after=after, pool=pool.key, seconds=math.ceil(expected), limit=limit)
        )

    def _left(self, pool: Pool, waiter: Waiter) -> None:
        self.queued_bytes -= waiter.size
        self._table.changed.add(pool)
        if not pool.queue:
            self.pools.pop(pool, None)

    def _may_take(self, pool: Pool, plan: Plan) -> bool:
        """Whether a pool may serve a request that waits for a sibling, by today's routes: the pool may be younger than the request."""
        routes = self._table.routes.get(plan.routes.name)
        return routes is not None and holds(pool, routes, plan)

    def _has_room(self, pool: Pool, work: int, body_bytes: int, without: Waiter | None = None) -> bool:
        """Whether another request may wait, perhaps in the place of one that does. A line of full depth may hold that many requests of
        the pool's class, so that those with many prompts or answers count as many.
        """
        queue, depth = pool.queue, pool.spec.queue_depth
        requests, tokens, size = len(queue), queue.tokens, self.queued_bytes
        if without is not None:
            requests, tokens, size = requests - 1, tokens - without.tokens, size - without.size
        if requests >= depth or size + body_bytes > self._max_queued_bytes:
            return False
        return not requests or tokens + work <= depth * pool.spec.class_tokens

    def _queue_full(self, plan: Plan, pool: Pool, caller: str, now: float) -> Refusal:
        after = self._retry_after(plan, pool, caller, now)
        return refusal(Reason.QUEUE_FULL, retry_after=after, pool=pool.key, depth=len(pool.queue))

    def _retry_after(self, plan: Plan, pool: Pool, caller: str, now: float) -> float:
        """When a place is likely: at the queue's own pace, or a quarter of its longest wait while nothing is known yet, or when a replica
        will be there.
        """
        if pool.spec.start_seconds is not None and not any(ready(one) for one in pool.replicas):
            return self._after_start(pool, now)
        wait = pool.queue.expected_wait(plan.chosen.name, plan.chosen.priority, caller, now)
        return self._jittered(pool.spec.queue_wait / 4 if wait is None else wait)

    def _after_start(self, pool: Pool, now: float) -> float:
        if pool.spec.start_seconds is None:
            return SOON
        return self._jittered(seconds_to_first_replica(pool.spec.start_seconds, pool.missed_since, now))

    def _jittered(self, seconds: float) -> float:
        return min(_LONGEST_RETRY_AFTER, seconds) * (1 + _JITTER * self._random())


def longest_wait(pool: Pool) -> float:
    """Seconds that a request may wait for a place of `pool`, counted from its arrival."""
    return pool.spec.queue_wait if any(ready(one) for one in pool.replicas) else pool.spec.cold_start_wait


def _may_give_places(pool: Pool) -> bool:
    """Whether a replica lives from which those who wait for `pool` may get a place."""
    spec = pool.spec
    return any(
        has_live_replica(one, ())
        for one in (pool, *pool.siblings)
        if one is pool or one.spec.class_name == spec.class_name or not (one.spec.strict or spec.strict)
    )


def cost(prompt: int, answer: int) -> int:
    """What a caller is charged for a request."""
    return prompt + _OUTPUT_COST * answer


def avoided(pool: Pool, ticket: Ticket) -> Collection[str]:
    """Replicas that must not get the request again: those that have failed it, as long as there is hope for another one."""
    return ticket.excluded if has_hope(pool, ticket.excluded) else ()
