from pool_objects import engine_pod

from workslice_operator.foreign_fields import foreign_fields
from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, SERVICES, Object
from workslice_operator.observed import pod_facts
from workslice_operator.rollout_facts import deployment_facts, replica_set_facts
from workslice_operator.slice_inventory import holds_slices, node_slices

MANAGERS = [
    {"manager": "workslice-operator", "fieldsV1": {"f:spec": {}}},
    {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:nodeName": {}}}}}},
    {"manager": "somebody", "subresource": "status", "fieldsV1": {}},
]


def deployment() -> Object:
    annotations = {"workslice.dev/template-hash": "h", "workslice.dev/ready-template": "r"}
    return {
        "metadata": {
            "name": "chat-engine",
            "uid": "d",
            "resourceVersion": "9",
            "generation": 3,
            "managedFields": MANAGERS,
            "annotations": annotations,
        },
        "spec": {"replicas": 2, "template": {"spec": {"containers": []}}},
        "status": {"replicas": 2, "updatedReplicas": 1, "observedGeneration": 3},
    }


def test_nothing_that_is_read_of_a_pod_gets_lost() -> None:
    raw = engine_pod("chat-1")
    limits = {"limits": {"nvidia.com/mig-1g.10gb": "1", "memory": "8Gi"}}
    raw["spec"]["containers"] = [{"name": "engine", "image": "vllm", "resources": limits, "args": ["--model"]}]
    raw["metadata"] |= {"managedFields": MANAGERS, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}
    kept = KEPT[PODS](raw)
    assert pod_facts(kept) == pod_facts(raw)
    assert holds_slices(kept) == holds_slices(raw)
    assert pod_facts(raw).memory_limit == "8Gi"
    assert "managedFields" not in kept["metadata"]


def test_nothing_that_is_read_of_a_deployment_gets_lost() -> None:
    raw, kept = deployment(), KEPT[DEPLOYMENTS](deployment())
    manifest = {"spec": {"template": {"spec": {}}}}
    assert foreign_fields(kept["metadata"]["managedFields"], manifest) == foreign_fields(MANAGERS, manifest) != ()
    before, after = deployment_facts(raw), deployment_facts(kept)
    assert [after.replicas, after.updated_replicas, after.settled] == [
        before.replicas,
        before.updated_replicas,
        before.settled,
    ]
    assert [after.template_hash, after.ready_template] == ["h", "r"]


def test_who_set_its_status_when_is_no_change_of_a_deployment() -> None:
    other = deployment()
    other["metadata"]["managedFields"] = [one | {"time": "later"} for one in MANAGERS if "subresource" not in one]
    assert KEPT[DEPLOYMENTS](other) == KEPT[DEPLOYMENTS](deployment())


def test_nothing_that_is_read_of_a_replica_set_gets_lost() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    annotations = {"deployment.kubernetes.io/revision": "7", "workslice.dev/ready-template": "long"}
    metadata = {"name": "rs", "labels": {"pod-template-hash": "6b5f"}, "annotations": annotations}
    raw = {"metadata": metadata, "spec": {"replicas": 2, "template": {}}, "status": {"conditions": [failure]}}
    kept = KEPT[REPLICA_SETS](raw)
    assert replica_set_facts(kept) == replica_set_facts(raw)
    assert replica_set_facts(kept).revision == 7
    assert "workslice.dev/ready-template" not in kept["metadata"]["annotations"]


def test_a_heartbeat_of_a_node_is_no_change() -> None:
    def node(beat: str) -> Object:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": beat}
        allocatable = {"nvidia.com/mig-1g.10gb": "7"}
        return {"metadata": {"name": "n"}, "status": {"conditions": [ready], "allocatable": allocatable, "images": []}}

    assert KEPT[NODES](node("1")) == KEPT[NODES](node("2"))
    assert node_slices(KEPT[NODES](node("1")), {}) == node_slices(node("1"), {})


def test_a_service_that_somebody_edits_is_a_change_though_it_counts_no_generations() -> None:
    first = {"metadata": {"name": "chat", "resourceVersion": "1"}, "spec": {}}
    second = {"metadata": {"name": "chat", "resourceVersion": "2"}, "spec": {}}
    assert KEPT[SERVICES](first) != KEPT[SERVICES](second)
