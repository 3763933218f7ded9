"""Who may talk to whom: engines answer routers and the operator only, admin ports the operator and the monitoring only."""

import json
from collections.abc import Iterator

import pytest
from demo.cluster_client import Cluster
from demo.example_manifests import NAMESPACE as POOLS
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import helm_install

import manifests
from installed import Installation
from probe_pods import address, call, caller, wait_for_call
from workslice_api import names
from workslice_api.names import OPERATOR_METRICS_PORT, ROUTER_ADMIN_PORT, ROUTER_PORT

FOREIGN = "e2e-foreign"
MONITORING = "e2e-monitoring"
MONITORING_SELECTOR = {"matchLabels": {"kubernetes.io/metadata.name": MONITORING}}


@pytest.fixture(scope="module")
def visited(pools: Installation) -> Iterator[Cluster]:
    """The cluster with strangers in it; the impostor has the labels of a router, but lives elsewhere."""
    found, image = pools.cluster, pools.images.router
    found.apply([manifests.namespace(name) for name in (FOREIGN, MONITORING)])
    strangers = [caller("e2e-stranger", namespace, image) for namespace in (POOLS, FOREIGN, MONITORING)]
    found.apply([*strangers, caller("impostor", FOREIGN, image, labels=pod(found, SYSTEM, "router")[1])])
    for namespace, name in ((POOLS, "e2e-stranger"), (FOREIGN, "e2e-stranger"), (MONITORING, "e2e-stranger")):
        address(found, namespace, name)
    address(found, FOREIGN, "impostor")
    yield found
    found.kubectl("delete", "pod", "e2e-stranger", "-n", POOLS)
    found.kubectl("delete", "namespace", FOREIGN, MONITORING, "--wait=false")


def pod(cluster: Cluster, namespace: str, component: str) -> tuple[str, dict[str, str]]:
    """Name and labels of a running pod of a component; the labels are those that Services and policies select by."""
    found = cluster.objects("pods", namespace, f"{names.COMPONENT_LABEL}={component}")
    living = [one for one in found if "deletionTimestamp" not in one["metadata"]]
    labels = {k: v for k, v in living[0]["metadata"]["labels"].items() if k.startswith("app.kubernetes.io/")}
    return living[0]["metadata"]["name"], labels


def engines(cluster: Cluster) -> list[str]:
    """Addresses of all engines of the examples' pools."""
    found = cluster.objects("pods", POOLS, f"{names.COMPONENT_LABEL}={names.ENGINE_COMPONENT}")
    return [one["status"]["podIP"] for one in found if "deletionTimestamp" not in one["metadata"]]


@pytest.mark.parametrize("component", ["router", "operator"])
def test_routers_and_the_operator_reach_every_engine(visited: Cluster, component: str) -> None:
    name, _ = pod(visited, SYSTEM, component)
    assert len(engines(visited)) >= 2
    for engine in engines(visited):
        assert call(visited, SYSTEM, name, engine, names.ENGINE_PORT) == "open"


@pytest.mark.parametrize(
    ("namespace", "name"), [(POOLS, "e2e-stranger"), (FOREIGN, "e2e-stranger"), (FOREIGN, "impostor")]
)
def test_no_other_pod_reaches_an_engine(visited: Cluster, namespace: str, name: str) -> None:
    for engine in engines(visited):
        assert call(visited, namespace, name, engine, names.ENGINE_PORT).startswith("closed")


def test_the_operator_reaches_the_routers_admin_port(visited: Cluster) -> None:
    router = address(visited, SYSTEM, pod(visited, SYSTEM, "router")[0])
    assert call(visited, SYSTEM, pod(visited, SYSTEM, "operator")[0], router, ROUTER_ADMIN_PORT) == "open"


@pytest.mark.parametrize("namespace", [POOLS, FOREIGN, MONITORING])
def test_anyone_calls_the_endpoint_but_no_admin_port(visited: Cluster, namespace: str) -> None:
    router = address(visited, SYSTEM, pod(visited, SYSTEM, "router")[0])
    operator = address(visited, SYSTEM, pod(visited, SYSTEM, "operator")[0])
    assert call(visited, namespace, "e2e-stranger", router, ROUTER_PORT) == "open"
    assert call(visited, namespace, "e2e-stranger", router, ROUTER_ADMIN_PORT).startswith("closed")
    assert call(visited, namespace, "e2e-stranger", operator, OPERATOR_METRICS_PORT).startswith("closed")


def test_a_monitoring_namespace_that_the_chart_names_reads_the_admin_ports_and_no_engine(
    pools: Installation, visited: Cluster
) -> None:
    router = address(visited, SYSTEM, pod(visited, SYSTEM, "router")[0])
    operator = address(visited, SYSTEM, pod(visited, SYSTEM, "operator")[0])
    selector = json.dumps(MONITORING_SELECTOR)
    helm_install(visited, pools.images, f"--set-json=networkPolicy.monitoringNamespaceSelector={selector}")
    try:
        for host, port in ((router, ROUTER_ADMIN_PORT), (operator, OPERATOR_METRICS_PORT)):
            wait_for_call(visited, MONITORING, "e2e-stranger", host, port, "open")
            assert call(visited, FOREIGN, "e2e-stranger", host, port).startswith("closed")
        assert call(visited, MONITORING, "e2e-stranger", engines(visited)[0], names.ENGINE_PORT).startswith("closed")
    finally:
        helm_install(visited, pools.images)
    wait_for_call(visited, MONITORING, "e2e-stranger", router, ROUTER_ADMIN_PORT, "closed")
