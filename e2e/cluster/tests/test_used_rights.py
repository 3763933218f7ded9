import json
from typing import Any

from workslice_cluster.used_rights import Right, rights_of, unused

ACCOUNT = "system:serviceaccount:system:operator"
PATCH, CREATE = Right("apps", "deployments", "patch"), Right("apps", "deployments", "create")


def line(verb: str = "patch", code: int = 200, account: str = ACCOUNT, **about: str) -> str:
    whole: dict[str, Any] = {
        "verb": verb,
        "user": {"username": account},
        "objectRef": {"apiGroup": "apps", "resource": "deployments", "namespace": "shop", "name": "chat"} | about,
        "responseStatus": {"code": code},
    }
    return json.dumps(whole)


def test_a_role_grants_every_verb_on_every_resource_of_a_rule() -> None:
    rule = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
    assert rights_of({"metadata": {}, "rules": [rule]}) == {
        Right("", resource, verb) for resource in ("pods", "pods/log") for verb in ("get", "list")
    }


def test_a_role_of_a_namespace_grants_named_objects_there() -> None:
    rule = {"apiGroups": [""], "resources": ["leases"], "verbs": ["get"], "resourceNames": ["one"]}
    assert rights_of({"metadata": {"namespace": "system"}, "rules": [rule]}) == {
        Right("", "leases", "get", "system", "one")
    }


def test_what_was_asked_for_is_used_and_the_rest_is_not() -> None:
    assert unused([PATCH, CREATE], ACCOUNT, [line()]) == {CREATE}


def test_an_apply_that_makes_the_object_uses_the_right_to_create() -> None:
    assert unused([PATCH, CREATE], ACCOUNT, [line(code=201)]) == frozenset()


def test_others_refusals_and_other_objects_use_nothing() -> None:
    lines = [
        line(account="system:serviceaccount:system:router"),
        line(code=403),
        line(apiGroup="batch"),
        line(subresource="status"),
    ]
    assert unused([PATCH], ACCOUNT, lines) == {PATCH}


def test_a_right_in_one_namespace_or_to_one_object_is_used_there_only() -> None:
    named = Right("apps", "deployments", "patch", "system", "one")
    assert unused([named], ACCOUNT, [line(namespace="system"), line(name="one")]) == {named}
    assert unused([named], ACCOUNT, [line(namespace="system", name="one")]) == frozenset()


def test_a_right_is_named_as_kubectl_would() -> None:
    assert str(Right("apps", "deployments", "patch")) == "patch deployments.apps"
    assert str(Right("", "leases", "get", "system", "one")) == "get leases one in system"
