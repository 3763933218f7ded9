from datetime import UTC, datetime
from typing import Any

import pytest

from workslice_api.names import DELETION_COST_ANNOTATION
from workslice_operator.observed import ModelFetch, pod_facts
from workslice_operator.rollout_facts import deployment_facts, replica_set_facts


def raw_pod(status: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "uid": "u", "creationTimestamp": "2026-03-01T11:00:00Z"},
        "spec": {"containers": [{"name": "engine", "resources": {"limits": {"memory": "8Gi"}}}]} | spec,
        "status": status,
    }


def engine(**state: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": [{"name": "sidecar"}, {"name": "engine", **state}]}


def test_a_pod_that_waits_for_a_place_carries_the_schedulers_words() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    facts = pod_facts(raw_pod({"phase": "Pending", "conditions": [condition]}))
    assert (facts.scheduled, facts.unschedulable, facts.live) == (False, "0/1 nodes", True)


def test_a_placed_pod_knows_since_when() -> None:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:30:00Z"}
    facts = pod_facts(raw_pod({"conditions": [condition]}))
    assert facts.scheduled_at == datetime(2026, 3, 1, 11, 30, tzinfo=UTC)


def test_a_pod_that_is_bound_but_has_no_condition_yet_is_placed() -> None:
    assert pod_facts(raw_pod({"phase": "Pending"}, nodeName="n1")).scheduled


@pytest.mark.parametrize("where", ["state", "lastState"])
def test_the_last_exit_is_read_from_the_present_or_the_previous_state(where: str) -> None:
    ended = {"terminated": {"exitCode": 2, "reason": "Error", "message": "boom", "startedAt": None}}
    last = pod_facts(raw_pod(engine(**{where: ended}, restartCount=3))).last_exit
    assert last is not None
    assert (last.exit_code, last.reason, last.message) == (2, "Error", "boom")
    assert last.replaced is (where == "lastState")


@pytest.mark.parametrize(
    ("status", "since", "silent"),
    [
        ("False", "11:00:00", False),
        ("False", "11:00:05", False),
        ("False", "11:00:06", False),
        ("False", "11:09:00", True),
        ("True", "11:09:00", False),
    ],
)
def test_an_engine_is_silent_when_it_lost_its_readiness_after_its_start(status: str, since: str, silent: bool) -> None:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": f"2026-03-01T{since}Z"}
    running = engine(state={"running": {"startedAt": "2026-03-01T11:00:05Z"}}, started=True)
    assert pod_facts(raw_pod({**running, "conditions": [ready]})).silent is silent


def test_a_waiting_container_tells_why() -> None:
    facts = pod_facts(raw_pod(engine(state={"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}})))
    assert (facts.waiting_reason, facts.waiting_message) == ("ImagePullBackOff", "no such host")


@pytest.mark.parametrize(
    ("conditions", "sandboxed"),
    [
        ([{"type": "PodReadyToStartContainers", "status": "False"}], False),
        ([{"type": "PodReadyToStartContainers", "status": "True"}], True),
        ([], True),
    ],
    ids=["without volumes or network", "with both", "a kubelet that does not tell"],
)
def test_a_pod_tells_whether_its_containers_could_be_started(conditions: list[dict[str, str]], sandboxed: bool) -> None:
    assert pod_facts(raw_pod({"conditions": conditions})).sandboxed is sandboxed


@pytest.mark.parametrize(("phase", "live"), [("Pending", True), ("Running", True), ("Failed", False)])
def test_finished_pods_are_no_replicas(phase: str, live: bool) -> None:
    assert pod_facts(raw_pod({"phase": phase})).live is live


def test_a_replica_set_tells_why_its_pods_are_refused() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}
    raw = {"metadata": {"name": "rs"}, "spec": {"replicas": 2}, "status": {"conditions": [failure]}}
    assert replica_set_facts(raw).failure == "exceeded quota: q"
    assert replica_set_facts({**raw, "status": {"conditions": [{**failure, "status": "False"}]}}).failure == ""


def test_a_deployment_without_status_has_facts_too() -> None:
    facts = deployment_facts({"metadata": {"name": "d"}, "spec": {"replicas": 2}})
    assert (facts.replicas, facts.updated_replicas, facts.managed_fields) == (2, 0, ())


@pytest.mark.parametrize(
    ("metadata", "status", "settled", "outdated", "stalled"),
    [
        ({"generation": 3}, {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2}, True, 0, False),
        ({"generation": 1}, {}, False, 0, False),
        ({"generation": 4}, {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2}, False, 0, False),
        ({"generation": 4}, {"observedGeneration": 4, "replicas": 3, "updatedReplicas": 1}, True, 2, False),
        ({"generation": 4}, {"observedGeneration": 4, "replicas": 2}, True, 2, False),
    ],
    ids=["at rest", "just made", "just changed", "in a rollout", "a rollout begins"],
)
def test_a_deployment_tells_whether_it_rolls(
    metadata: dict[str, Any], status: dict[str, Any], settled: bool, outdated: int, stalled: bool
) -> None:
    facts = deployment_facts({"metadata": {"name": "d"} | metadata, "spec": {"replicas": 2}, "status": status})
    assert (facts.settled, facts.outdated_replicas, facts.stalled) == (settled, outdated, stalled)


def test_a_rollout_without_progress_is_stalled() -> None:
    condition = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
    raw = {"metadata": {"name": "d"}, "spec": {}, "status": {"conditions": [condition]}}
    assert deployment_facts(raw).stalled


@pytest.mark.parametrize(("spec", "seconds"), [({"progressDeadlineSeconds": 1020}, 1020), ({}, 600)])
def test_a_deployment_tells_how_long_it_waits_for_progress(spec: dict[str, Any], seconds: float) -> None:
    assert deployment_facts({"metadata": {"name": "d"}, "spec": spec}).progress_deadline == seconds


@pytest.mark.parametrize(("text", "cost"), [("-5", -5), ("soon", 0)])
def test_a_deletion_cost_that_the_replica_set_would_ignore_is_none(text: str, cost: int) -> None:
    raw = raw_pod({"podIP": "10.1.0.7"}, nodeName="n1")
    raw["metadata"]["annotations"] = {DELETION_COST_ANNOTATION: text}
    facts = pod_facts(raw)
    assert (facts.deletion_cost, facts.address, facts.node) == (cost, "10.1.0.7", "n1")


FAILED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no"}}


@pytest.mark.parametrize(
    ("status", "fetch"),
    [
        ({"state": {"running": {}}}, ModelFetch(done=False, failure="")),
        ({"state": FAILED}, ModelFetch(done=False, failure="no")),
        ({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": FAILED}, ModelFetch(False, "no")),
        ({"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}, ModelFetch(False, "OOMKilled")),
        ({"state": {"terminated": {"exitCode": 0, "message": "{}"}}, "lastState": FAILED}, ModelFetch(True, "", "{}")),
        ({"state": {"waiting": {"reason": "PodInitializing"}}}, ModelFetch(done=False, failure="")),
    ],
    ids=["runs", "failed", "failed and waits", "killed", "came through", "waits"],
)
def test_how_far_a_pod_is_with_its_model_is_read(status: dict[str, Any], fetch: ModelFetch) -> None:
    raw = raw_pod({"phase": "Pending", "initContainerStatuses": [{"name": "model-fetch", **status}]})
    assert pod_facts(raw).fetch == fetch


def test_what_the_container_that_fetches_waits_for_counts_before_what_the_engine_waits_for() -> None:
    pull: dict[str, Any] = {"name": "model-fetch", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    both = engine(state={"waiting": {"reason": "PodInitializing"}}) | {"initContainerStatuses": [pull]}
    assert pod_facts(raw_pod(both)).waiting_reason == "ImagePullBackOff"
    pull["state"] = {"terminated": {"exitCode": 0}}
    assert pod_facts(raw_pod(both)).waiting_reason == "PodInitializing"


@pytest.mark.parametrize(
    ("spec", "surges"),
    [
        ({"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}, True),
        ({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}, False),
        ({"strategy": {"type": "Recreate"}}, False),
        ({}, False),
    ],
)
def test_a_deployment_tells_whether_its_rollouts_have_one_replica_more(spec: dict[str, Any], surges: bool) -> None:
    assert deployment_facts({"metadata": {"name": "d"}, "spec": spec}).surges is surges


def test_pods_and_replica_sets_tell_which_belong_together_and_which_set_is_the_newest() -> None:
    pod = raw_pod({"phase": "Running"})
    pod["metadata"]["labels"] = {"pod-template-hash": "6b5f"}
    metadata = {
        "name": "rs",
        "labels": {"pod-template-hash": "6b5f"},
        "annotations": {"deployment.kubernetes.io/revision": "7"},
    }
    facts = replica_set_facts({"metadata": metadata})
    assert pod_facts(pod).template == facts.template == "6b5f"
    assert facts.revision == 7
    assert replica_set_facts({"metadata": {"name": "rs", "annotations": {}}}).revision == 0
