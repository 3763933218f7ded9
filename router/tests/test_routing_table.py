"""The routing table: what changes of pools keep and what they drop."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from routed_pools import LONG, SHORT, Bench, replicas, table_of, view

from workslice_router.admission import Lease
from workslice_router.choose import best_replica
from workslice_router.ejection import Outcome
from workslice_router.model_list import model_document, models_document
from workslice_router.openai_errors import Refused
from workslice_router.routing_table import PoolSpec, RoutingTable


def test_nothing_is_visible_before_the_commit() -> None:
    table = RoutingTable()
    table.put_pool(SHORT)
    assert not table.routes
    table.commit()
    assert set(table.routes) == {"tiny"}


def test_classes_are_ordered_by_size_and_carry_their_limits() -> None:
    routes = table_of((LONG, ()), (SHORT, ())).routes["tiny"]
    assert [(one.name, one.tokens) for one in routes.classes] == [("short", 2000), ("long", 8000)]
    assert routes.context_tokens == 8000


def test_every_alias_is_a_route_and_goes_when_it_is_removed() -> None:
    table = table_of((replace(SHORT, aliases=("gpt", "tiny")), ()))
    assert set(table.routes) == {"tiny", "gpt"}
    table.put_pool(SHORT)
    table.commit()
    assert set(table.routes) == {"tiny"}


def test_a_pool_in_conflict_has_no_routes() -> None:
    table = table_of((SHORT, ()))
    table.put_pool(SHORT, serving=False)
    table.commit()
    assert not table.routes
    assert "serving/short" in table.pools


def test_accounting_survives_changes_of_spec_and_address() -> None:
    table = table_of((SHORT, replicas("a", "b")))
    pool = table.pools["serving/short"]
    pool.replicas[0].in_flight = 3
    table.put_pool(replace(SHORT, weight=7, max_concurrent=9))
    table.put_replicas("serving/short", [*replicas("b", ready=False), replace(replicas("a")[0], host="10.0.0.9")])
    table.commit()
    assert table.pools["serving/short"] is pool
    assert pool.spec.weight == 7
    a, b = pool.replicas
    assert (a.uid, a.in_flight, a.host) == ("a", 3, "10.0.0.9")
    assert not b.spec.ready


def test_a_pool_that_was_deleted_and_made_again_starts_afresh() -> None:
    table = table_of((replace(SHORT, uid="1"), replicas("a")))
    old = table.pools["serving/short"]
    table.put_pool(replace(SHORT, uid="2"))
    table.commit()
    assert table.pools["serving/short"] is not old
    assert not old.serving


def test_a_replica_that_comes_back_ready_is_trusted_again() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    bench.lease().settle(Outcome.CONNECT_FAILED)
    pool = bench.table.pools["serving/short"]
    assert pool.replicas[0].health.ejected
    for ready in (False, True):
        bench.table.put_replicas("serving/short", replicas("a", ready=ready))
        bench.table.commit()
    assert not pool.replicas[0].health.ejected


def test_a_replica_that_is_gone_stays_listed_until_its_last_request_ends() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    lease = bench.lease()
    bench.table.put_replicas("serving/short", [])
    bench.table.commit()
    pool = bench.table.pools["serving/short"]
    assert [one.uid for one in pool.replicas] == ["a"]
    lease.settle(Outcome.OK)
    assert pool.replicas == ()
    bench.assert_idle()


def test_a_request_outlives_its_pool() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    lease = bench.lease()
    bench.table.remove_pool("serving/short")
    bench.table.commit()
    assert lease.pool.spec.model == "tiny"
    assert bench.admission.in_flight == 1
    lease.settle(Outcome.OK)
    bench.assert_idle()


def test_lists_models_and_aliases_with_their_classes() -> None:
    table = table_of((replace(SHORT, aliases=("gpt",)), ()), (LONG, ()))
    document = models_document(table)
    assert b'"id":"gpt"' in document
    assert b'"id":"tiny"' in document
    assert b'"max_model_len":8000' in model_document(table, "tiny")


def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(Refused) as caught:
        model_document(table_of(), "nobody")
    assert caught.value.refusal.status == 404


class TableMachine(RuleBasedStateMachine):
    """Requests come, wait and go while pools and replicas change: accounting always agrees with the open leases."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(RoutingTable())
        self.leases: list[Lease] = []
        self.waiting = 0

    @rule(
        which=st.sampled_from([SHORT, LONG]), weight=st.integers(0, 2), serving=st.booleans(), uid=st.sampled_from("12")
    )
    def put_pool(self, which: PoolSpec, weight: int, serving: bool, uid: str) -> None:
        self.bench.table.put_pool(replace(which, weight=weight, uid=uid, desired_replicas=1), serving)
        self.bench.table.commit()

    @rule(which=st.sampled_from([SHORT, LONG]), uids=st.sets(st.sampled_from("abcd")), ready=st.booleans())
    def put_replicas(self, which: PoolSpec, uids: set[str], ready: bool) -> None:
        self.bench.table.put_replicas(which.key, replicas(*(which.key + uid for uid in uids), ready=ready))
        self.bench.table.commit()

    @rule(which=st.sampled_from([SHORT, LONG]))
    def remove_pool(self, which: PoolSpec) -> None:
        self.bench.table.remove_pool(which.key)
        self.bench.table.commit()

    @rule(tokens=st.sampled_from([25, 5000]), requested=st.sampled_from([None, "short", "long"]))
    def ask(self, tokens: int, requested: str | None) -> None:
        machine = self

        class Remembering:
            caller = "anna"

            def granted(self, lease: Lease) -> None:
                machine.leases.append(lease)
                machine.waiting -= 1

            def refused(self, cause: object) -> None:
                machine.waiting -= 1

        try:
            plan = self.bench.admission.plan(view(prompt_size=tokens), requested)
            placed = self.bench.admission.submit(plan, Remembering(), body_bytes=10)
        except Refused:
            return
        if isinstance(placed, Lease):
            self.leases.append(placed)
        else:
            self.waiting += 1

    @precondition(lambda self: self.leases)
    @rule(index=st.integers(0, 99), outcome=st.sampled_from(Outcome))
    def settle(self, index: int, outcome: Outcome) -> None:
        self.leases.pop(index % len(self.leases)).settle(outcome)

    @rule(seconds=st.floats(0, 70))
    def pass_time(self, seconds: float) -> None:
        self.bench.now += seconds
        self.bench.admission.tick()

    @invariant()
    def accounting_agrees_with_the_open_leases(self) -> None:
        admission = self.bench.admission
        assert admission.in_flight == len(self.leases)
        assert admission.waiting == self.waiting
        for pool in self.bench.table.pools.values():
            mine = [lease for lease in self.leases if lease.pool is pool]
            assert pool.running == len(mine)
            for replica in pool.replicas:
                here = [lease for lease in mine if lease.replica is replica]
                assert replica.in_flight == len(here)
                assert replica.outstanding_tokens == sum(lease.plan.work for lease in here)

    @invariant()
    def nobody_waits_beside_a_free_place(self) -> None:
        for pool in self.bench.table.pools.values():
            if pool.queue:
                assert pool.serving
                assert pool.spec.weight
                assert best_replica(pool, (), self.bench.now) is None

    def teardown(self) -> None:
        while self.leases:
            self.leases.pop().settle(Outcome.OK)
        self.bench.now += 1000
        self.bench.admission.tick()
        while self.leases:
            self.leases.pop().settle(Outcome.OK)
        assert self.waiting == 0
        self.bench.assert_idle()


TestTableMachine = TableMachine.TestCase
