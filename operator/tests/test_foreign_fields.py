from typing import Any

import pytest
from pool_facts import make_pool, make_profile, new_deployment

from workslice_operator.foreign_fields import foreign_fields

MANIFEST = new_deployment(make_pool(), make_profile(engine={"env": [{"name": "OURS", "value": "1"}]}))
ENGINE = 'k:{"name":"engine"}'


def entry(template: dict[str, Any], manager: str = "kubectl-edit", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "fieldsV1": {"f:spec": {"f:template": template}}} | more


def container(fields: dict[str, Any]) -> dict[str, Any]:
    return {"f:spec": {"f:containers": {ENGINE: fields}}}


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (container({"f:env": {'k:{"name":"PROXY"}': {".": {}, "f:name": {}}}}), "container engine: env PROXY"),
        (container({"f:resources": {"f:limits": {"f:cpu": {}}}}), "container engine: resources.limits.cpu"),
        ({"f:spec": {"f:containers": {'k:{"name":"sidecar"}': {".": {}, "f:image": {}}}}}, "container sidecar"),
        ({"f:spec": {"f:initContainers": {".": {}, 'k:{"name":"i"}': {".": {}, "f:image": {}}}}}, "init container i"),
        ({"f:spec": {"f:nodeSelector": {".": {}, "f:disk": {}}}}, "nodeSelector.disk"),
        ({"f:spec": {"f:volumes": {'k:{"name":"extra"}': {".": {}}}}}, "volumes[extra]"),
        ({"f:metadata": {"f:annotations": {"f:example.com/x": {}}}}, "metadata.annotations[example.com/x]"),
        ({"f:metadata": {"f:labels": {"f:example.com/x": {}}}}, "metadata.labels[example.com/x]"),
    ],
)
def test_what_others_add_is_named_with_its_manager(template: dict[str, Any], name: str) -> None:
    assert foreign_fields([entry(template)], MANIFEST) == (f"{name} (by kubectl-edit)",)


@pytest.mark.parametrize(
    "one",
    [
        entry(container({"f:image": {}, "f:args": {}})),
        entry(container({"f:env": {'k:{"name":"OURS"}': {"f:value": {}}}})),
        entry(container({"f:ports": {'k:{"containerPort":8000,"protocol":"TCP"}': {"f:name": {}}}})),
        entry(container({"f:env": {'k:{"name":"X"}': {}}}), manager="workslice-operator"),
        entry(container({"f:env": {'k:{"name":"X"}': {}}}), manager="kube-controller-manager"),
        entry({"f:metadata": {"f:annotations": {".": {}, "f:kubectl.kubernetes.io/restartedAt": {}}}}),
        {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {"f:x": {}}}}},
        {"manager": "kubectl-scale", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ],
    ids=[
        "ours edited",
        "our env edited",
        "our port",
        "us",
        "controllers",
        "rollout restart",
        "not the template",
        "scale",
    ],
)
def test_what_the_next_apply_restores_and_what_is_wanted_is_not_named(one: dict[str, Any]) -> None:
    assert foreign_fields([one], MANIFEST) == ()


def test_a_deployment_that_nobody_touched_has_none() -> None:
    assert foreign_fields([], MANIFEST) == ()
