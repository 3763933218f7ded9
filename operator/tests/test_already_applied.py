import copy
from typing import Any

import pytest

from workslice_operator.already_applied import already_applied
from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import DEPLOYMENTS, Object

MANIFEST: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "chat-engine", "labels": {"a": "b"}, "ownerReferences": [{"uid": "u", "controller": True}]},
    "spec": {
        "replicas": 0,
        "minReadySeconds": 0,
        "template": {
            "spec": {"containers": [{"name": "engine", "args": ["--a", "1"], "env": [{"name": "X", "value": "y"}]}]}
        },
    },
}
CONTAINER = {
    ".": {},
    "f:name": {},
    "f:args": {},
    "f:env": {'k:{"name":"X"}': {".": {}, "f:name": {}, "f:value": {}}},
}
OWNED = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:ownerReferences": {'k:{"uid":"u"}': {}}},
    "f:spec": {
        "f:replicas": {},
        "f:minReadySeconds": {},
        "f:template": {"f:spec": {"f:containers": {'k:{"name":"engine"}': CONTAINER}}},
    },
}


def live() -> Object:
    """As the API gives it: with defaults, and without what is zero."""
    raw: Object = copy.deepcopy(MANIFEST)
    del raw["spec"]["minReadySeconds"]
    raw["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"
    raw["metadata"] |= {
        "uid": "d",
        "generation": 1,
        "resourceVersion": "5",
        "managedFields": [
            {"manager": "workslice-operator", "operation": "Apply", "fieldsV1": copy.deepcopy(OWNED), "time": "t"},
            {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {}},
        ],
    }
    return raw


def test_what_another_process_applied_need_not_be_applied_again() -> None:
    assert already_applied(MANIFEST, live())
    assert already_applied(MANIFEST, KEPT[DEPLOYMENTS](live()))


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw["spec"].update(replicas=3),
        lambda raw: raw["metadata"]["labels"].clear(),
        lambda raw: raw["spec"]["template"]["spec"]["containers"][0]["args"].append("--b"),
        lambda raw: raw["spec"]["template"]["spec"]["containers"][0]["env"][0].update(value="z"),
        lambda raw: raw["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"}),
        lambda raw: raw["metadata"]["managedFields"].pop(0),
    ],
)
def test_what_somebody_has_changed_is_applied_again(change: Any) -> None:
    raw = live()
    change(raw)
    assert not already_applied(MANIFEST, raw)


def test_what_an_earlier_version_applied_and_this_one_does_not_is_taken_back() -> None:
    raw = live()
    raw["spec"]["paused"] = True
    raw["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:paused"] = {}
    assert not already_applied(MANIFEST, raw)


def test_what_others_have_added_is_theirs() -> None:
    raw = live()
    raw["metadata"]["annotations"] = {"note": "x"}
    raw["metadata"]["managedFields"].append(
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {"f:annotations": {"f:note": {}}}}}
    )
    assert already_applied(MANIFEST, raw)
