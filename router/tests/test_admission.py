"""Granting, queueing, spilling, retrying and settling."""

from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, Asker, Bench, replicas, table_of, view

from workslice_router.admission import Lease
from workslice_router.ejection import Outcome
from workslice_router.openai_errors import Reason, Refused, refusal
from workslice_router.waiting_room import Ticket


def refused(bench: Bench, **changes: object) -> Reason:
    with pytest.raises(Refused) as caught:
        bench.ask(**changes)  # type: ignore[arg-type]
    return caught.value.refusal.reason


@pytest.fixture
def short_only() -> Bench:
    return Bench(table_of((SHORT, replicas("a"))))


@pytest.fixture
def both() -> Bench:
    return Bench(table_of((SHORT, replicas("s")), (LONG, replicas("l"))))


def test_a_model_that_nobody_configured_is_not_found(short_only: Bench) -> None:
    assert refused(short_only, model="nobody") is Reason.UNKNOWN_MODEL


def test_short_and_long_requests_go_to_their_pools(both: Bench) -> None:
    assert both.lease(prompt_size=100).pool.key == "serving/short"
    assert both.lease(prompt_size=5000).pool.key == "serving/long"
    assert both.lease(prompt_size=100, requested_class="long").pool.key == "serving/long"


def test_without_max_tokens_the_default_answer_counts() -> None:
    bench = Bench(table_of((SHORT, replicas("s")), (LONG, replicas("l"))), first_answer=1950)
    assert bench.lease(prompt_size=100, max_tokens=None).pool.key == "serving/long"
    assert bench.lease(prompt_size=100, max_tokens=5).pool.key == "serving/short"


def test_without_max_tokens_nearly_every_answer_that_the_model_gives_must_fit(both: Bench) -> None:
    for number in range(1000):
        both.estimator.answers.learn("tiny", "long", 1950 if number % 50 == 0 else 20, bounded=False, cut=False)
    assert both.lease(prompt_size=100, max_tokens=None).pool.key == "serving/long"
    assert both.lease(prompt_size=100, max_tokens=1800).pool.key == "serving/short", "a bound that fits is believed"


def test_without_max_tokens_no_answer_needs_more_room_than_the_largest_context_leaves(both: Bench) -> None:
    for _ in range(200):
        both.estimator.answers.learn("tiny", "long", 20_000, bounded=False, cut=False)
    assert both.admission.plan(view(prompt_size=100, max_tokens=None), None).room == LONG.context_tokens
    assert both.admission.plan(view(prompt_size=9000, max_tokens=None), None).room == 9001


def test_without_max_tokens_the_room_stays_within_the_largest_context_when_the_prompt_proves_longer() -> None:
    bench = Bench(table_of((SHORT, replicas("s")), (replace(LONG, context_tokens=3000), replicas("l"))))
    asked = view(prompt_size=100, max_tokens=None)
    for _ in range(200):
        bench.estimator.answers.learn("tiny", "short", 1500, bounded=False, cut=False)
    lease = bench.lease(prompt_size=100, max_tokens=None)
    larger = bench.admission.larger(lease, asked)
    assert larger is not None
    assert (larger.prompt_tokens, larger.room) == (2001, 3000)


def test_a_bound_on_the_answer_is_no_forecast_of_it(both: Bench) -> None:
    roomy = replace(SHORT, context_tokens=6000)
    both.table.put_pool(roomy)
    both.table.commit()
    assert both.lease(prompt_size=100, max_tokens=5000).pool.key == "serving/short", "512 tokens are expected"
    for _ in range(100):
        both.estimator.answers.learn("tiny", "short", 3000, bounded=True, cut=False)
    assert both.lease(prompt_size=100, max_tokens=5000).pool.key == "serving/long"


def test_max_tokens_must_fit_the_context_whatever_is_expected(both: Bench) -> None:
    assert both.lease(prompt_size=100, max_tokens=1900).pool.key == "serving/short"
    assert both.lease(prompt_size=100, max_tokens=1901).pool.key == "serving/long", "the engine would cut the answer"


def test_a_model_name_with_a_class_behind_it_names_the_class(both: Bench) -> None:
    assert both.lease(model="tiny@long").pool.key == "serving/long"
    assert both.lease(model="tiny@long", requested_class="short").pool.key == "serving/short", "the header wins"
    assert refused(both, model="tiny@huge") is Reason.UNKNOWN_CLASS
    assert refused(both, model="nobody@long") is Reason.UNKNOWN_MODEL


def test_accounting_is_local_and_instant(short_only: Bench) -> None:
    lease = short_only.lease()
    replica = short_only.table.pools["serving/short"].replicas[0]
    assert (replica.in_flight, replica.outstanding_tokens) == (1, 200)
    lease.settle(Outcome.OK)
    lease.settle(Outcome.OK)
    short_only.assert_idle()


@pytest.mark.parametrize("outcome", Outcome)
def test_every_way_out_gives_the_place_back(short_only: Bench, outcome: Outcome) -> None:
    short_only.lease().settle(outcome)
    short_only.assert_idle()


def test_idle_replicas_take_turns() -> None:
    bench = Bench(table_of((SHORT, replicas("a", "b", "c"))))
    uids = []
    for _ in range(6):
        lease = bench.lease()
        uids.append(lease.replica.uid)
        lease.settle(Outcome.OK)
    assert uids == ["a", "b", "c", "a", "b", "c"]


def test_a_full_pool_spills_where_the_request_fits_and_queues_otherwise(both: Bench) -> None:
    shorts = [both.lease().pool.key for _ in range(4)]
    assert shorts == ["serving/short", "serving/short", "serving/long", "serving/long"]
    _, ticket = both.wait()
    assert ticket.pool.key == "serving/short"


def test_a_request_that_asked_for_its_class_waits_for_it(both: Bench) -> None:
    for _ in range(2):
        both.lease(requested_class="short")
    _, ticket = both.wait(requested_class="short")
    assert ticket.pool.key == "serving/short"
    assert both.table.pools["serving/long"].running == 0


def test_who_waits_gets_the_next_place_and_knows_how_long_it_waited(short_only: Bench) -> None:
    first = short_only.lease()
    short_only.lease()
    asker, _ = short_only.wait()
    short_only.now += 2.5
    first.settle(Outcome.OK)
    assert [lease.queued_seconds for lease in asker.leases] == [2.5]
    assert short_only.admission.waiting == 0


def test_a_free_place_of_a_sibling_takes_who_waits_and_fits(both: Bench) -> None:
    leases = [both.lease() for _ in range(4)]
    asker, _ = both.wait()
    on_long = next(lease for lease in leases if lease.pool.key == "serving/long")
    on_long.settle(Outcome.OK)
    assert asker.leases[0].pool.key == "serving/long"
    assert asker.leases[0].class_name == "short"


def test_a_long_request_never_takes_a_short_place(both: Bench) -> None:
    shorts = [both.lease(requested_class="short") for _ in range(2)]
    for _ in range(2):
        both.lease(prompt_size=5000)
    asker, _ = both.wait(prompt_size=5000)
    for lease in shorts:
        lease.settle(Outcome.OK)
    assert not asker.leases


def test_the_queue_goes_by_class_priority_first() -> None:
    urgent = replace(SHORT, key="serving/urgent", class_name="urgent", class_tokens=300, priority=-5)
    bench = Bench(table_of((urgent, ()), (replace(SHORT, max_concurrent=1), replicas("a"))))
    running = bench.lease()
    normal, _ = bench.wait(prompt_size=1000)
    pressing, _ = bench.wait()
    running.settle(Outcome.OK)
    assert not normal.leases
    assert [(lease.class_name, lease.priority, lease.pool.key) for lease in pressing.leases] == [
        ("urgent", -5, "serving/short")
    ]


def test_a_client_that_leaves_frees_its_place_in_the_queue_at_once(short_only: Bench) -> None:
    running = [short_only.lease() for _ in range(2)]
    asker, ticket = short_only.wait(body_bytes=500)
    ticket.cancel()
    ticket.cancel()
    assert (short_only.admission.waiting, short_only.admission.queued_bytes) == (0, 0)
    for lease in running:
        lease.settle(Outcome.OK)
    assert not asker.leases
    assert not asker.refusals
    short_only.assert_idle()


def test_who_waits_too_long_is_told_so(short_only: Bench) -> None:
    for _ in range(2):
        short_only.lease()
    asker, _ = short_only.wait()
    short_only.now += 59.9
    short_only.admission.tick()
    assert not asker.refusals
    short_only.now += 0.1
    short_only.admission.tick()
    assert [cause.reason for cause in asker.refusals] == [Reason.QUEUE_TIMEOUT]


def test_a_pool_that_wants_no_replicas_refuses_at_once() -> None:
    assert refused(Bench(table_of((SHORT, ())))) is Reason.NO_REPLICAS


def test_requests_wait_for_a_replica_that_is_starting() -> None:
    bench = Bench(table_of((replace(SHORT, desired_replicas=1), replicas("a", ready=False))))
    asker, _ = bench.wait()
    bench.table.put_replicas("serving/short", replicas("a"))
    bench.table.commit()
    assert len(asker.leases) == 1


def test_waiting_for_a_replica_that_never_comes_ends_with_503() -> None:
    bench = Bench(table_of((replace(SHORT, desired_replicas=1), ())))
    asker, _ = bench.wait()
    bench.now += 301
    bench.admission.tick()
    assert [cause.reason for cause in asker.refusals] == [Reason.NO_REPLICAS]


def test_a_retry_goes_to_another_replica() -> None:
    bench = Bench(table_of((SHORT, replicas("a", "b"))))
    lease = bench.lease()
    lease.settle(Outcome.CONNECT_FAILED)
    assert bench.lease(excluded=[lease.replica.uid]).replica.uid != lease.replica.uid


def test_a_retry_without_another_replica_is_refused(short_only: Bench) -> None:
    lease = short_only.lease()
    lease.settle(Outcome.CONNECT_FAILED)
    assert refused(short_only, excluded=["a"]) is Reason.ENGINE_UNREACHABLE


def test_a_retry_keeps_its_first_deadline(short_only: Bench) -> None:
    asker = Asker()
    plan = short_only.admission.plan(view(), None)
    for _ in range(2):
        short_only.lease()
    short_only.now += 50
    assert isinstance(short_only.admission.submit(plan, asker, body_bytes=1), Ticket)
    short_only.now += 10
    short_only.admission.tick()
    assert [cause.reason for cause in asker.refusals] == [Reason.QUEUE_TIMEOUT]


def test_the_dead_replica_is_not_the_most_attractive_one() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=100), replicas("alive", "dead"))))
    failures = 0
    for _ in range(60):
        lease = bench.lease()
        if lease.replica.uid == "dead":
            failures += 1
            lease.settle(Outcome.CONNECT_FAILED)
        bench.now += 0.01
    assert failures == 1


def test_while_the_only_replica_rests_requests_wait_and_one_probes(short_only: Bench) -> None:
    short_only.lease().settle(Outcome.CONNECT_FAILED)
    first, _ = short_only.wait()
    second, _ = short_only.wait()
    short_only.now += 1.0
    short_only.admission.tick()
    assert (len(first.leases), len(second.leases)) == (1, 0)
    first.leases[0].settle(Outcome.OK)
    assert len(second.leases) == 1


def test_a_long_answer_to_the_probe_does_not_keep_the_others_waiting(short_only: Bench) -> None:
    short_only.lease().settle(Outcome.CONNECT_FAILED)
    short_only.now += 1.0
    probe = short_only.lease()
    asker, _ = short_only.wait()
    probe.answered()
    assert len(asker.leases) == 1
    assert not short_only.table.pools["serving/short"].replicas[0].health.ejected
    probe.settle(Outcome.OK)


def test_when_every_replica_has_failed_for_some_seconds_nobody_waits_any_longer(short_only: Bench) -> None:
    for _ in range(3):
        short_only.lease().settle(Outcome.CONNECT_FAILED)
        short_only.now += 30.0
    probe = short_only.lease()
    asker, _ = short_only.wait()
    probe.settle(Outcome.CONNECT_FAILED)
    assert [cause.reason for cause in asker.refusals] == [Reason.NO_REPLICAS]
    assert refused(short_only) is Reason.NO_REPLICAS
    short_only.now += 30.0
    assert short_only.lease().replica.uid == "a", "after its rest it is tried again"


def test_shutdown_answers_everyone_who_waits(short_only: Bench) -> None:
    for _ in range(2):
        short_only.lease()
    askers = [short_only.wait()[0] for _ in range(3)]
    short_only.admission.refuse_all_waiting(refusal(Reason.SHUTTING_DOWN))
    assert [one.refusals[0].reason for one in askers] == [Reason.SHUTTING_DOWN] * 3
    assert short_only.admission.waiting == 0


def test_grants_that_settle_at_once_do_not_pile_up_on_the_stack(short_only: Bench) -> None:
    class Hasty(Asker):
        def granted(self, lease: Lease) -> None:
            super().granted(lease)
            lease.settle(Outcome.OK)

    running = [short_only.lease() for _ in range(2)]
    short_only.table.put_pool(replace(SHORT, queue_depth=5000))
    short_only.table.commit()
    hasty = [Hasty() for _ in range(3000)]
    for one in hasty:
        plan = short_only.admission.plan(view(), None)
        short_only.admission.submit(plan, one, body_bytes=1)
    running[0].settle(Outcome.OK)
    assert all(len(one.leases) == 1 for one in hasty)
    running[1].settle(Outcome.OK)
    short_only.assert_idle()


def test_a_prompt_that_the_engine_finds_too_long_goes_to_a_larger_pool_and_teaches(both: Bench) -> None:
    asked = view(prompt_size=1000)
    plan = both.admission.plan(asked, None)
    lease = both.admission.submit(plan, Asker(), body_bytes=1)
    assert isinstance(lease, Lease)
    assert lease.pool.key == "serving/short"
    larger = both.admission.larger(lease, asked)
    assert larger is not None
    lease.settle(Outcome.TOO_LONG)
    again = both.admission.submit(larger, Asker(), body_bytes=1)
    assert isinstance(again, Lease)
    assert again.pool.key == "serving/long"
    assert both.admission.larger(again, asked) is None, "there is nothing larger: the engine's own answer stands"
    again.settle(Outcome.OK)
    assert both.lease(prompt_size=1625).pool.key == "serving/long", "2000 tokens in 4000 characters are remembered"


def test_a_class_that_was_asked_for_is_not_left_for_a_larger_one(both: Bench) -> None:
    lease = both.lease(requested_class="short", prompt_size=1000)
    assert both.admission.larger(lease, view(prompt_size=1000)) is None
