"""The short pool follows its queue depth up and down, and no request notices."""

from demo.load import Load
from demo.pool_state import condition, describe
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation


def test_the_short_pool_grows_under_load_and_shrinks_after_it_without_losing_a_request(pools: Installation) -> None:
    def replicas(wanted: int) -> None:
        pool = pools.cluster.get("wspool", "short", "demo")
        status = pool["status"]
        if not status.get("desiredReplicas") == status.get("readyReplicas") == status.get("replicas") == wanted:
            raise NotYet(describe(pool))

    wait_until("one replica before the load", lambda: replicas(1), seconds=120)
    with Load(pools.client(), MODEL, in_flight=8, most=8) as load:
        wait_until("two ready replicas", lambda: replicas(2), seconds=240)
        seen = len(load.answers)

        def both_answer() -> None:
            if len({answer.replica for answer in load.answers[seen:]}) < 2:
                raise NotYet("all answers come from one replica")

        wait_until("answers from both replicas", both_answer, seconds=60)
        load.in_flight = 1
        wait_until("one replica after the load", lambda: replicas(1), seconds=180)
        after = len(load.answers)

        def goes_on() -> None:
            if len(load.answers) < after + 5:
                raise NotYet(f"{len(load.answers) - after} answers since the scale-down")

        wait_until("answers after the scale-down", goes_on, seconds=60)
    assert load.failures == []
    assert {answer.pool for answer in load.answers} == {"demo/short"}


def test_the_pool_says_why_it_has_as_many_replicas_as_it_has(pools: Installation) -> None:
    scaling = condition(pools.cluster.get("wspool", "short", "demo"), "Scaling")
    assert scaling["status"] in ("True", "False")
    assert scaling["message"]

    def both() -> None:
        events = pools.cluster.objects("events", "demo")
        reasons = {event["reason"] for event in events if event["involvedObject"]["name"] == "short"}
        if not {"ScaledUp", "ScaledDown"} <= reasons:
            raise NotYet(f"Events: {reasons}")

    wait_until("Events of both directions", both, seconds=30)
