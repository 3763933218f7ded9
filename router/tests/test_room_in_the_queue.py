"""How much may wait, who makes room, who is refused because waiting would be in vain, and where to wait."""

import contextlib
from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Asker, Bench, replicas, table_of, view

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.openai_errors import Reason, Refusal, Refused
from workslice_router.waiting_room import Ticket


def refused(bench: Bench, **changes: object) -> Reason:
    with pytest.raises(Refused) as caught:
        bench.ask(**changes)  # type: ignore[arg-type]
    return caught.value.refusal.reason


def test_an_overfull_queue_answers_429_with_a_time_that_follows_from_its_pace() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=3, max_concurrent=1), replicas("a"))))
    running = bench.lease()
    waiting = [bench.wait()[0] for _ in range(3)]
    for _ in range(10):
        bench.now += 4.0
        running.settle(Outcome.OK)
        running = waiting.pop(0).leases[0]
        waiting.append(bench.wait()[0])
    with pytest.raises(Refused) as caught:
        bench.ask()
    assert caught.value.refusal.reason is Reason.QUEUE_FULL
    assert dict(caught.value.refusal.headers)[b"retry-after"] == b"16"
    assert caught.value.refusal.pool == "serving/short"


def test_those_who_are_refused_together_are_told_different_times() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=1, queue_wait=80.0, max_concurrent=1), replicas("a"))))
    bench.lease()
    bench.wait()
    told = set()
    for bench.random in (0.0, 0.4, 0.8):
        with pytest.raises(Refused) as caught:
            bench.ask()
        told.add(dict(caught.value.refusal.headers)[b"retry-after"])
    assert told == {b"20", b"22", b"24"}


def test_a_queue_of_so_many_requests_holds_no_more_tokens_than_so_many_of_its_class() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=2, max_concurrent=1), replicas("a"))))
    bench.lease()
    bench.wait(prompts=30)  # 3,100 tokens of 4,000
    assert refused(bench, prompts=30) is Reason.QUEUE_FULL
    bench.wait()


def test_the_first_may_wait_however_many_tokens_it_has() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=2, max_concurrent=1), replicas("a"))))
    bench.lease()
    bench.wait(prompts=100)


def test_a_caller_that_fills_the_queue_makes_room_for_another() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=3, max_concurrent=1), replicas("a"))))
    bench.lease()
    flood = [bench.wait()[0] for _ in range(3)]
    asker, _ = bench.wait(caller="bert")
    assert [[cause.reason for cause in one.refusals] for one in flood] == [[], [], [Reason.QUEUE_FULL]]
    assert (bench.admission.waiting, bench.admission.queued_bytes, asker.refusals) == (3, 300, [])
    with pytest.raises(Refused):
        bench.ask(caller="bert")


def test_a_depth_of_zero_means_no_queue() -> None:
    bench = Bench(table_of((replace(SHORT, queue_depth=0, max_concurrent=1), replicas("a"))))
    bench.lease()
    assert refused(bench) is Reason.QUEUE_FULL


def test_queued_bytes_are_bounded_over_all_pools() -> None:
    bench = Bench(table_of((SHORT, replicas("a")), (LONG, replicas("b"))), max_queued_bytes=1000)
    for _ in range(4):
        bench.lease()
    bench.wait(body_bytes=600)
    with pytest.raises(Refused):
        bench.ask(body_bytes=600, prompt_size=5000)


def served_every_two_seconds(depth: int = 100, wait: float = 21.0) -> tuple[Bench, list[Asker]]:
    """A pool with one place that comes free every two seconds, and those who still wait."""
    bench = Bench(table_of((replace(SHORT, queue_depth=depth, queue_wait=wait, max_concurrent=1), replicas("a"))))
    running = bench.lease()
    waiting = [bench.wait()[0], bench.wait()[0]]
    for _ in range(10):
        bench.now += 2.0
        running.settle(Outcome.OK)
        running = waiting.pop(0).leases[0]
        waiting.append(bench.wait()[0])
    return bench, waiting


def test_who_would_wait_in_vain_is_told_at_once_and_when_to_come_back() -> None:
    bench, _ = served_every_two_seconds()
    for _ in range(8):
        bench.wait()
    with pytest.raises(Refused) as caught:
        bench.ask()
    assert caught.value.refusal.reason is Reason.WAIT_TOO_LONG
    assert caught.value.refusal.status == 429
    assert dict(caught.value.refusal.headers)[b"retry-after"] == b"22"
    assert caught.value.refusal.pool == SHORT.key
    bench.wait(caller="bert")  # whose turn comes before theirs


def test_who_has_waited_elsewhere_has_less_time_left() -> None:
    bench, _ = served_every_two_seconds()
    plan = bench.admission.plan(view(), None)
    bench.now += 0.1
    bench.admission.submit(plan, Asker(), body_bytes=1)
    early = replace(plan, arrived=bench.now - 16.0)
    with pytest.raises(Refused) as caught:
        bench.admission.submit(early, Asker(), body_bytes=1)
    assert caught.value.refusal.reason is Reason.WAIT_TOO_LONG


def test_nobody_is_refused_for_a_pace_that_is_not_known() -> None:
    bench = Bench(table_of((replace(SHORT, queue_wait=0.1, max_concurrent=1), replicas("a"))))
    bench.lease()
    for _ in range(200):
        bench.wait()


def test_while_no_replica_is_ready_no_pace_is_believed() -> None:
    bench, waiting = served_every_two_seconds()
    bench.table.put_pool(replace(SHORT, desired_replicas=1, queue_depth=100, queue_wait=21.0, max_concurrent=1))
    bench.table.put_replicas(SHORT.key, replicas("a", ready=False))
    bench.table.commit()
    for _ in range(30):
        bench.wait()
    assert not any(one.refusals for one in waiting)


def test_when_a_queue_takes_no_more_another_of_the_class_does_but_none_of_another_class() -> None:
    short = replace(SHORT, max_concurrent=1, queue_depth=1)
    bench = Bench(table_of((short, replicas("s")), (replace(LONG, max_concurrent=1), replicas("l"))))
    assert [bench.lease().pool.key for _ in range(2)] == [SHORT.key, LONG.key]
    bench.wait()
    assert refused(bench) is Reason.QUEUE_FULL
    twin = replace(short, key="serving/twin")
    bench.table.put_pool(twin)
    bench.table.put_replicas(twin.key, replicas("t"))
    bench.table.commit()
    assert bench.table.pools[twin.key].running == 1, "it takes who waits"
    waiting = {bench.wait()[1].pool.key for _ in range(2)}
    assert waiting == {SHORT.key, twin.key}
    assert refused(bench) is Reason.QUEUE_FULL


def test_waits_where_a_replica_lives_rather_than_where_one_has_yet_to_come() -> None:
    cold = replace(SHORT, desired_replicas=1)
    bench = Bench(table_of((cold, replicas("s", ready=False)), (replace(LONG, max_concurrent=1), replicas("l"))))
    bench.lease()
    asker, ticket = bench.wait()
    assert ticket.pool.key == LONG.key
    bench.table.put_replicas(SHORT.key, replicas("s"))
    bench.table.commit()
    assert [lease.pool.key for lease in asker.leases] == [SHORT.key], "its own pool takes it as soon as it can"


def test_a_replica_gets_no_more_requests_than_its_kv_cache_holds() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=50), replicas("a", "unknown"))))
    capped, unknown = bench.table.pools[SHORT.key].replicas
    capped.kv_tokens = 1000
    bench.lease()
    bench.admission.tick()
    assert (capped.dispatch_cap, unknown.dispatch_cap) == (4, 50), "of 200 tokens each, and a tenth is left free"
    for _ in range(20):
        bench.lease()
    assert (capped.in_flight, unknown.in_flight) == (4, 17)
    bench.table.put_replicas(SHORT.key, replicas("a"))
    bench.table.commit()
    _, ticket = bench.wait()
    capped.kv_tokens = None
    bench.now += 1.0
    bench.admission.tick()
    assert ticket.waiter not in ticket.pool.queue._waiting


def after_a_start(bench: Bench, seconds: float) -> None:
    """Time passes, tick by tick, until the pool's first replica is ready."""
    for _ in range(round(seconds * 10)):
        bench.now += 0.1
        bench.admission.tick()
    bench.table.put_replicas(SHORT.key, replicas("a"))
    bench.table.commit()


def test_the_time_of_a_first_start_is_not_taken_for_the_pace_of_places() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=16, desired_replicas=1), ())))
    askers = [bench.wait(caller=f"caller {number}")[0] for number in range(22)]
    after_a_start(bench, 200.0)
    assert sum(len(one.leases) for one in askers) == 16
    bench.now += 1.0
    bench.wait(caller="new")


def test_nor_is_the_time_in_which_the_last_replica_was_gone() -> None:
    bench, _ = served_every_two_seconds()
    bench.table.put_pool(replace(SHORT, max_concurrent=4, desired_replicas=1, queue_wait=21.0))
    bench.table.put_replicas(SHORT.key, replicas("a", ready=False))
    bench.table.commit()
    for _ in range(6):
        bench.wait()
    after_a_start(bench, 40.0)
    bench.now += 1.0
    bench.wait()


def test_nobody_is_refused_where_a_place_is_free_that_only_those_who_wait_cannot_use() -> None:
    bench = Bench(table_of((replace(SHORT, queue_wait=5.0, max_concurrent=1), replicas("a", "b"))))
    on_a, _ = bench.lease(), bench.lease()
    on_a.settle(Outcome.RESET)
    straggler, _ = bench.wait(excluded=["a"], caller="straggler")
    for _ in range(20):
        for _ in range(30):  # one that a has failed always waits for b, and seldom comes somebody else
            bench.now += 0.1
            bench.admission.tick()
            if straggler.refusals:
                straggler, _ = bench.wait(excluded=["a"], caller="straggler")
        asker, _ = bench.wait(caller="another")
        bench.admission.tick()
        asker.leases.pop().settle(Outcome.OK)


class AsksElsewhere(Asker):
    """Asks for another model as soon as it is refused, as one does whose pool has a fallback."""

    bench: Bench
    other: str

    def ask(self, bench: Bench, model: str, other: str) -> Lease | Ticket:
        self.bench, self.other = bench, other
        plan = bench.admission.plan(view(model=model), None)
        return bench.admission.submit(plan, self, body_bytes=1)

    def refused(self, cause: Refusal) -> None:
        super().refused(cause)
        with contextlib.suppress(Refused):
            self.ask(self.bench, self.other, "nobody")


def test_nobody_is_told_that_it_waits_no_longer_before_it_knows_that_it_waits() -> None:
    one = replace(SHORT, key="serving/a", model="a", queue_depth=4, max_concurrent=1)
    two = replace(SHORT, key="serving/b", model="b", queue_depth=2, max_concurrent=1)
    bench = Bench(table_of((one, replicas("a")), (two, replicas("b"))))
    for model in ("a", "b"):
        bench.lease(model=model)
    for caller, model, other in (("anna", "a", "b"),) * 3 + (("xaver", "a", "b"),) + (("rosa", "b", "a"),) * 2:
        AsksElsewhere(caller).ask(bench, model, other)
    newcomer = AsksElsewhere("xaver")
    ticket = newcomer.ask(bench, "a", "b")  # pushes out anna, who pushes out rosa from b, who finds a full of two each
    assert isinstance(ticket, Ticket)
    assert newcomer.refusals == []
    assert ticket.waiter in ticket.pool.queue._waiting
    ticket.cancel()
    assert bench.admission.waiting == 5
