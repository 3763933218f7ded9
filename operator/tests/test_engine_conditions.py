from typing import Any

import pytest
from pool_facts import NOW, make_deployment, make_exit, make_observed, make_pod, make_pool, ready_pod, unplaced_pod

from workslice_api.names import Reason
from workslice_api.ownership import Conflict
from workslice_operator.engine_conditions import engines_ready
from workslice_operator.finding import Finding
from workslice_operator.rollout_facts import ReplicaSetFacts
from workslice_operator.slice_inventory import slice_inventory

BURST = make_pool(scaling={"mode": "QueueDepth", "minReplicas": 1, "maxReplicas": 4})


def finding(desired: int, pool: Any = None, **facts: Any) -> Finding:
    return engines_ready(make_observed(pool, **facts), desired, 600, NOW)


def test_engines_are_ready_when_every_wanted_replica_is() -> None:
    result = finding(2, pods=(ready_pod("a"), ready_pod("b")))
    assert (result.status, result.reason, result.message) == (True, Reason.ALL_READY, "2 of 2 replicas ready")


def test_a_pool_of_fixed_size_is_not_ready_while_one_replica_starts() -> None:
    result = finding(2, pods=(ready_pod("a"), make_pod("b")))
    assert (result.status, result.reason) == (False, Reason.STARTING)


def test_a_pool_that_grows_with_demand_stays_ready_while_more_start() -> None:
    result = finding(3, BURST, pods=(ready_pod("a"), make_pod("b"), unplaced_pod("c", "")))
    assert (result.status, result.reason) == (True, Reason.STARTING)
    assert result.message == "1 of 3 replicas ready, 1 without a slice; the others start"


def test_replicas_without_a_slice_are_not_said_to_start() -> None:
    result = finding(3, pods=(ready_pod("a"), unplaced_pod("b", ""), unplaced_pod("c", "")))
    assert result.message == "1 of 3 replicas ready, 2 without a slice"


def test_a_pool_that_grows_with_demand_is_not_ready_below_its_minimum() -> None:
    assert finding(2, BURST, pods=(make_pod("a"), make_pod("b"))).status is False


def test_a_pool_scaled_to_zero_on_purpose_is_ready() -> None:
    result = finding(0, make_pool(replicas=0))
    assert (result.status, result.reason) == (True, Reason.SCALED_TO_ZERO)


def test_a_pool_that_waits_for_its_profile_has_not_started() -> None:
    result = finding(0, profile=None)
    assert (result.status, result.reason) == (False, Reason.NOT_STARTED)


def test_a_pool_in_conflict_runs_nothing() -> None:
    result = finding(0, conflict=Conflict("tiny", "other", "first"))
    assert (result.status, result.reason) == (False, Reason.NOT_STARTED)


def test_one_broken_replica_makes_the_pool_unready_even_above_the_minimum() -> None:
    result = finding(2, BURST, pods=(ready_pod("a"), make_pod("b", last_exit=make_exit("x: error: bad"))))
    assert (result.status, result.reason) == (False, Reason.CRASH_LOOPING)
    assert result.message.startswith("1 of 2 replicas ready; b ended with exit code 1: bad; ")


def test_the_worst_of_several_faults_is_told() -> None:
    pods = (make_pod("a", age=900), make_pod("b", last_exit=make_exit(reason="OOMKilled", exit_code=137)))
    assert finding(2, pods=pods).reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ({"gpu-1": "Unknown"}, Reason.NODE_LOST),
        ({"another": "True"}, Reason.NODE_LOST),
        ({"gpu-1": "True"}, Reason.NOT_ANSWERING),
        (None, Reason.NOT_ANSWERING),
    ],
    ids=["lost", "deleted", "there", "nodes may not be read"],
)
def test_a_replica_that_falls_silent_with_its_node_is_told_apart(nodes: dict[str, str] | None, reason: Reason) -> None:
    raw = [
        {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
        for name, status in (nodes or {}).items()
    ]
    silent = make_pod(age=9000, started=True, silent=True, node="gpu-1")
    observed = make_observed(pods=(silent,), inventory=None if nodes is None else slice_inventory(raw, []))
    assert engines_ready(observed, 1, 600.0, NOW).reason is reason


def test_a_missing_claim_is_named_before_anything_that_follows_from_it() -> None:
    result = finding(1, pods=(unplaced_pod("a", 'persistentvolumeclaim "w" not found'),), missing_volumes=("w",))
    assert result.reason is Reason.MODEL_VOLUME_MISSING
    assert (
        "PersistentVolumeClaim w of the profile's model does not exist: create it in the namespace shop"
        in result.message
    )


@pytest.mark.parametrize(
    ("failure", "advice"),
    [
        ('pods "x" is forbidden: exceeded quota: q, requested: pods=1', "raise the quota or lower the replicas"),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes', "template of the pool"),
        ('pods "x" is forbidden: error looking up service account: serviceaccount "s" not found', "serviceAccountName"),
        ("something else", "correct what the message names"),
    ],
)
def test_refused_pods_are_told_with_the_apis_words(failure: str, advice: str) -> None:
    result = finding(1, replica_sets=(ReplicaSetFacts("rs", 1, failure),))
    assert result.reason is Reason.PODS_REFUSED
    assert failure in result.message
    assert advice in result.message


def test_a_refusal_of_a_replica_set_that_wants_nothing_any_more_is_old_news() -> None:
    assert finding(1, replica_sets=(ReplicaSetFacts("rs", 0, "exceeded quota"),)).reason is Reason.STARTING


def test_replicas_that_go_do_not_count() -> None:
    result = finding(1, pods=(ready_pod("a", deleting=True), make_pod("b")))
    assert result.message.startswith("0 of 1 replicas ready")


def test_a_new_version_that_fails_says_that_the_others_stay_on_the_old_one() -> None:
    broken = make_pod("b", last_exit=make_exit("x: error: bad"))
    pods = (ready_pod("a"), ready_pod("c"), broken)
    result = finding(3, pods=pods, deployment=make_deployment(3, outdated_replicas=2))
    assert (result.status, result.reason) == (False, Reason.CRASH_LOOPING)
    assert result.message.endswith("; until then 2 replicas stay on the previous version")
    assert "previous version" not in finding(3, pods=pods, deployment=make_deployment(3)).message
