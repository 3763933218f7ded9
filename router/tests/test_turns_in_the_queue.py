"""Who of those who wait gets a place, and where."""

from dataclasses import replace

from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.ejection import Outcome
from workslice_router.replica_load import FIRST_PACE, ServiceLevel, Work


def test_the_callers_of_a_queue_have_turns_by_what_they_had_not_by_who_came_first() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=1), replicas("a"))))
    running = bench.lease()
    askers = [bench.wait()[0] for _ in range(4)] + [bench.wait(caller="bert")[0] for _ in range(2)]
    turns = []
    while any(not one.leases for one in askers):
        running.settle(Outcome.OK)
        (running,) = (one.leases[0] for one in askers if one.leases and one.leases[0].open)
        turns += [one.caller for one in askers if one.leases and one.leases[0] is running]
    assert turns == ["anna", "bert", "anna", "bert", "anna", "anna"]


def test_a_caller_whose_answers_were_longer_than_expected_waits_for_the_others() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=1), replicas("a"))))
    running = bench.lease()
    anna = [bench.wait()[0] for _ in range(3)]
    bert = [bench.wait(caller="bert")[0] for _ in range(3)]
    running.settle(Outcome.OK)
    anna[0].leases[0].used(100, 450)  # expected were 100, which the others get
    anna[0].leases[0].settle(Outcome.OK)
    for asker in bert:
        assert asker.leases
        asker.leases[0].used(100, 100)
        asker.leases[0].settle(Outcome.OK)
    assert not anna[2].leases


def test_nobody_is_charged_for_a_place_on_an_engine_that_was_dead() -> None:
    bench = Bench(table_of((replace(SHORT, max_concurrent=1), replicas("a", "b"))))
    on_a, on_b = bench.lease(), bench.lease()
    anna = [bench.wait(prompt_size=size)[0] for size in (1000, 100)]
    bert = [bench.wait(caller="bert")[0] for _ in range(2)]
    on_a.settle(Outcome.OK)
    anna[0].leases[0].settle(Outcome.CONNECT_FAILED)
    on_b.settle(Outcome.OK)
    bert[0].leases[0].settle(Outcome.OK)
    assert (len(anna[1].leases), len(bert[1].leases)) == (1, 0)


def test_with_a_service_level_the_place_comes_where_the_first_token_is_soonest() -> None:
    level = ServiceLevel(0.5, 0.05)
    bench = Bench(table_of((replace(SHORT, max_concurrent=1, level=level), replicas("busy"))))
    bench.lease()
    asker, _ = bench.wait()
    coming = replicas("quick", "slow", ready=False)
    bench.table.put_replicas(SHORT.key, [*replicas("busy"), *coming])
    quick, slow = (one for one in bench.table.pools[SHORT.key].replicas if one.uid != "busy")
    slow.load.add(Work(1900.0, 10.0, level), bench.now, FIRST_PACE)
    quick.outstanding_tokens = 1000  # of answers: nothing that delays a first token
    bench.table.put_replicas(SHORT.key, replicas("busy", "quick", "slow"))
    bench.table.commit()
    assert [lease.replica.uid for lease in asker.leases] == ["quick"]
