"""Rights, network and Pod Security of the chart's own pods, held as explicit tables."""

from typing import Any

import pytest
from rendered_chart import NAMESPACE, named, render
from seldom_used_rights import SELDOM

from workslice_cluster.used_rights import rights_of

FOLLOW = {"list", "watch"}
LOOK = {"get", *FOLLOW}
APPLY = {*LOOK, "create", "patch"}

EVERYWHERE: dict[str, dict[str, set[str]]] = {
    "operator": {
        "workslice.dev/workspacepools": LOOK,
        "workslice.dev/workspaceprofiles": LOOK,
        "workslice.dev/workspacepools/status": {"patch"},
        "workslice.dev/workspaceprofiles/status": {"patch"},
        "apps/deployments": APPLY,
        "/services": APPLY,
        "policy/poddisruptionbudgets": APPLY,
        "networking.k8s.io/networkpolicies": APPLY,
        "/pods": {"list", "watch", "patch"},
        "/pods/log": {"get"},
        "apps/replicasets": {"list", "watch"},
        "/nodes": {"list", "watch"},
        "/persistentvolumeclaims": {"get"},
        "/events": {"list", "create", "patch"},
    },
    "router": {
        "workslice.dev/workspacepools": FOLLOW,
        "workslice.dev/workspaceprofiles": FOLLOW,
        "discovery.k8s.io/endpointslices": FOLLOW,
    },
}
IN_ITS_NAMESPACE = {
    "discovery.k8s.io/endpointslices": {"list"},
    "coordination.k8s.io/leases": {"create"},
    "coordination.k8s.io/leases workslice-operator": {"get", "update"},
}


def objects(**values: Any) -> list[dict[str, Any]]:
    return render({"crds": {"enabled": False}, **values})


def granted(role: dict[str, Any]) -> dict[str, set[str]]:
    rights: dict[str, set[str]] = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                key = " ".join([f"{group}/{resource}", *rule.get("resourceNames", [])])
                rights.setdefault(key, set()).update(rule["verbs"])
    return rights


@pytest.mark.parametrize("component", EVERYWHERE)
def test_cluster_wide_rights_are_exactly_these(component: str) -> None:
    assert granted(named(objects(), "ClusterRole", f"workslice-{component}")) == EVERYWHERE[component]


def test_the_operators_rights_in_its_own_namespace_are_exactly_these() -> None:
    assert granted(named(objects(), "Role", "workslice-operator")) == IN_ITS_NAMESPACE


def test_nothing_else_grants_rights() -> None:
    kinds = [one["kind"] for one in objects() if "Role" in one["kind"]]
    assert kinds == ["ClusterRole"] * 2 + ["ClusterRoleBinding"] * 2 + ["Role", "RoleBinding"]


def test_no_right_is_a_wildcard() -> None:
    """Also where every optional part of the chart is switched on."""
    everything = {
        "apiKeys": {"existingSecret": "callers"},
        "podMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "operator": {"replicas": 2},
    }
    rules = [rule for one in objects(**everything) for rule in one.get("rules", []) if "Role" in one["kind"]]
    assert rules
    for rule in rules:
        assert "nonResourceURLs" not in rule
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_every_reason_for_a_right_that_few_use_is_about_one_that_is_there() -> None:
    roles = [one for one in objects() if one["kind"] in ("Role", "ClusterRole")]
    assert {str(right) for role in roles for right in rights_of(role)} >= set(SELDOM)
    assert all(len(reason) > 20 for reason in SELDOM.values())


@pytest.mark.parametrize("component", EVERYWHERE)
def test_each_program_has_an_account_of_its_own(component: str) -> None:
    binding = named(objects(), "ClusterRoleBinding", f"workslice-{component}")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": f"workslice-{component}", "namespace": NAMESPACE}]
    pod = named(objects(), "Deployment", f"workslice-{component}")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == f"workslice-{component}"


@pytest.mark.parametrize("component", EVERYWHERE)
def test_pods_pass_pod_security_restricted(component: str) -> None:
    pod = named(objects(apiKeys={"existingSecret": "callers"}), "Deployment", f"workslice-{component}")["spec"][
        "template"
    ]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(pod)
    assert all(set(volume) - {"name"} <= {"secret", "emptyDir"} for volume in pod.get("volumes", []))
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert {"livenessProbe", "readinessProbe"} <= set(container)


def test_admin_ports_are_open_to_the_operator_only() -> None:
    router = named(objects(), "NetworkPolicy", "workslice-router")["spec"]["ingress"]
    assert router[0] == {"ports": [{"port": "http", "protocol": "TCP"}]}
    (peer,) = router[1]["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    assert router[1]["ports"] == [{"port": "admin", "protocol": "TCP"}]
    assert named(objects(), "NetworkPolicy", "workslice-operator")["spec"]["ingress"] == []


def test_monitoring_reaches_admin_ports_when_its_namespace_is_named() -> None:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    policies = objects(networkPolicy={"monitoringNamespaceSelector": selector})
    router = named(policies, "NetworkPolicy", "workslice-router")["spec"]["ingress"]
    operator = named(policies, "NetworkPolicy", "workslice-operator")["spec"]["ingress"]
    assert {"namespaceSelector": selector} in router[1]["from"]
    assert operator == [{"from": [{"namespaceSelector": selector}], "ports": [{"port": "metrics", "protocol": "TCP"}]}]


def test_the_chart_neither_reads_nor_holds_secrets() -> None:
    for one in objects(apiKeys={"existingSecret": "callers"}):
        assert one["kind"] != "Secret"
        assert "secrets" not in [resource for rule in one.get("rules", []) for resource in rule["resources"]]
