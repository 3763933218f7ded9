"""From the objects of the Kubernetes API to the routing table."""

from typing import Any

import pytest

from workslice_api.names import ENGINE_PORT_NAME, POOL_LABEL
from workslice_api.pool import WorkspacePool
from workslice_router import cluster_view
from workslice_router.cluster_view import ClusterView, Kind
from workslice_router.pool_spec import pool_spec
from workslice_router.routing_table import PoolSpec, RoutingTable

_version = 0


def _metadata(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    global _version
    _version += 1
    return {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(_version), **more}


def pool(
    name: str = "short", namespace: str = "serving", created: str = "2026-01-01T00:00:00Z", **spec: Any
) -> dict[str, Any]:
    status = spec.pop("status", {})
    deleted = {"deletionTimestamp": "2026-01-02T00:00:00Z"} if spec.pop("deleting", False) else {}
    return {
        "metadata": _metadata(name, namespace, creationTimestamp=created, **deleted),
        "spec": {
            "profileRef": {"name": "small"},
            "model": "tiny",
            "requestClass": {"name": "short", "maxTotalTokens": 1000},
            **spec,
        },
        "status": status,
    }


def profile(max_tokens: int = 4000, **status: Any) -> dict[str, Any]:
    metadata = _metadata("small", "")
    del metadata["namespace"]
    return {
        "metadata": metadata,
        "spec": {
            "model": {"source": "/m"},
            "slice": {"profiles": ["1g.10gb"]},
            "workspace": {"maxTokens": max_tokens, "maxConcurrent": 3},
        },
        "status": status,
    }


def endpoint_slice(*endpoints: dict[str, Any], name: str = "short-abc", of: str = "short") -> dict[str, Any]:
    return {
        "metadata": _metadata(name, "serving", labels={POOL_LABEL: of}),
        "ports": [{"name": "metrics", "port": 9}, {"name": ENGINE_PORT_NAME, "port": 8000}],
        "endpoints": list(endpoints),
    }


def endpoint(uid: str, ready: bool | None = True, terminating: bool = False) -> dict[str, Any]:
    conditions: dict[str, Any] = {"terminating": terminating}
    if ready is not None:
        conditions["ready"] = ready
    return {"addresses": ["10.0.0.5"], "conditions": conditions, "targetRef": {"kind": "Pod", "uid": uid}}


class Cluster:
    """A view, its table, and shorthand for telling it things."""

    def __init__(self, **owners: str) -> None:
        self.view = ClusterView(owners)
        self.table = RoutingTable()

    def put(self, kind: Kind, *items: dict[str, Any]) -> None:
        for item in items:
            self.view.put(kind, item)
        self.settle()

    def settle(self) -> None:
        while self.view.step(self.table):
            pass


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.put(Kind.PROFILE, profile())
    made.put(Kind.POOL, pool())
    made.put(Kind.ENDPOINT_SLICE, endpoint_slice(endpoint("a")))
    return made


def test_a_pool_its_profile_and_its_endpoints_make_a_route(cluster: Cluster) -> None:
    routed = cluster.table.pools["serving/short"]
    assert (routed.spec.class_tokens, routed.spec.context_tokens, routed.spec.max_concurrent) == (1000, 4000, 3)
    (replica,) = routed.replicas
    assert (replica.uid, replica.host, replica.port, replica.spec.ready) == ("a", "10.0.0.5", 8000, True)
    assert "tiny" in cluster.table.routes


@pytest.mark.parametrize(("in_flight", "most"), [(2, 2), (50, 3)], ids=["fewer than engines run", "more"])
def test_a_set_cap_counts_up_to_what_engines_run(cluster: Cluster, in_flight: int, most: int) -> None:
    cluster.put(Kind.POOL, pool(queue={"maxInFlightPerReplica": in_flight}))
    spec = cluster.table.pools["serving/short"].spec
    assert (spec.max_concurrent, spec.derives_cap) == (most, False)


@pytest.mark.parametrize(
    ("conditions", "ready", "draining"),
    [
        ({"ready": True}, True, False),
        ({"ready": None}, True, False),
        ({"ready": False}, False, False),
        ({"ready": False, "terminating": True}, False, True),
    ],
)
def test_the_conditions_of_an_endpoint_decide(
    cluster: Cluster, conditions: dict[str, Any], ready: bool, draining: bool
) -> None:
    cluster.put(Kind.ENDPOINT_SLICE, endpoint_slice(endpoint("a", **conditions)))
    (replica,) = cluster.table.pools["serving/short"].replicas
    assert (replica.spec.ready, replica.spec.draining) == (ready, draining)


def test_a_pod_named_in_status_draining_gets_nothing_new(cluster: Cluster) -> None:
    cluster.put(Kind.POOL, pool(status={"draining": ["a"], "desiredReplicas": 1}))
    (replica,) = cluster.table.pools["serving/short"].replicas
    assert replica.spec.draining
    assert cluster.table.pools["serving/short"].spec.desired_replicas == 1


def engines_ready(reason: str, status: str = "False", generation: int = 0) -> dict[str, Any]:
    """Status of a pool that wants one replica, with this condition."""
    told = {"type": "EnginesReady", "status": status, "reason": reason, "observedGeneration": generation}
    return {"desiredReplicas": 1, "conditions": [{**told, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}


@pytest.mark.parametrize("reason", ["ModelVolumeMissing", "PodsRefused"])
def test_replicas_that_cannot_come_before_a_person_acts_are_not_waited_for(cluster: Cluster, reason: str) -> None:
    cluster.put(Kind.POOL, pool(status=engines_ready(reason)))
    assert cluster.table.pools["serving/short"].spec.desired_replicas == 0


@pytest.mark.parametrize("reason", ["Starting", "CrashLooping", "ImagePullFailed", "StartTimedOut", "EngineFailed"])
def test_replicas_that_start_or_are_tried_again_are_waited_for(cluster: Cluster, reason: str) -> None:
    cluster.put(Kind.POOL, pool(status=engines_ready(reason)))
    assert cluster.table.pools["serving/short"].spec.desired_replicas == 1


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [({"mode": "QueueDepth", "maxReplicas": 2, "scaleToZeroAfter": "30m"}, 1), ({"mode": "Fixed"}, 0)],
    ids=["wakes by itself", "was scaled to zero by hand"],
)
def test_only_a_pool_that_a_request_wakes_is_waited_for_at_zero(
    cluster: Cluster, scaling: dict[str, Any], expected: int
) -> None:
    asleep = pool(status=engines_ready("ScaledToZero", "True") | {"desiredReplicas": 0})
    asleep["spec"]["scaling"] = scaling
    cluster.put(Kind.POOL, asleep)
    assert cluster.table.pools["serving/short"].spec.desired_replicas == expected


@pytest.mark.parametrize("asleep", [True, False])
def test_a_pool_sleeps_as_long_as_its_status_says_so(cluster: Cluster, asleep: bool) -> None:
    cluster.put(Kind.POOL, pool(status={"desiredReplicas": 0, "scaling": {"asleep": asleep}}))
    assert cluster.table.pools["serving/short"].spec.asleep is asleep


def test_what_the_operator_said_of_an_older_pool_stops_nobody_from_waiting(cluster: Cluster) -> None:
    corrected = pool(status=engines_ready("PodsRefused", generation=1))
    corrected["metadata"]["generation"] = 2
    cluster.put(Kind.POOL, corrected)
    assert cluster.table.pools["serving/short"].spec.desired_replicas == 1


def test_the_order_in_which_things_are_told_does_not_matter() -> None:
    late = Cluster()
    late.put(Kind.ENDPOINT_SLICE, endpoint_slice(endpoint("a")))
    late.put(Kind.POOL, pool())
    assert [one.uid for one in late.table.pools["serving/short"].replicas] == ["a"]
    late.put(Kind.PROFILE, profile())
    assert late.table.pools["serving/short"].spec.context_tokens == 4000


def test_how_long_replicas_take_to_start_reaches_the_pools_of_a_profile_and_no_other_status_does(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.put(Kind.POOL, pool())
    cluster.put(Kind.PROFILE, profile(startSeconds=42))
    assert cluster.table.pools["serving/short"].spec.start_seconds == 42
    looked_at: list[str] = []

    def look(seen: WorkspacePool, *of_profile: Any) -> PoolSpec:
        looked_at.append(seen.metadata.name)
        return pool_spec(seen, *of_profile)

    monkeypatch.setattr(cluster_view, "pool_spec", look)
    cluster.put(Kind.PROFILE, profile(startSeconds=42, poolCount=7))
    assert looked_at == []
    cluster.put(Kind.PROFILE, profile(startSeconds=60))
    assert looked_at == ["short"]


def test_a_profile_deleted_under_a_running_pool_leaves_it_serving(cluster: Cluster) -> None:
    cluster.view.delete(Kind.PROFILE, {"name": "small"})
    cluster.settle()
    assert cluster.table.routes["tiny"].context_tokens == 1000


def test_several_slices_of_a_pool_add_up_and_an_empty_one_goes(cluster: Cluster) -> None:
    cluster.put(Kind.ENDPOINT_SLICE, endpoint_slice(endpoint("b"), endpoint("a", ready=False), name="short-def"))
    replicas = cluster.table.pools["serving/short"].replicas
    assert [(one.uid, one.spec.ready) for one in replicas] == [("a", True), ("b", True)]
    cluster.view.delete(Kind.ENDPOINT_SLICE, {"name": "short-abc", "namespace": "serving"})
    cluster.settle()
    assert [(one.uid, one.spec.ready) for one in cluster.table.pools["serving/short"].replicas] == [
        ("a", False),
        ("b", True),
    ]


def test_an_endpoint_without_a_pod_or_a_slice_without_our_port_is_no_replica(cluster: Cluster) -> None:
    stray = endpoint("x")
    del stray["targetRef"]
    foreign = endpoint_slice(endpoint("y"), name="short-xyz")
    foreign["ports"] = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    cluster.put(Kind.ENDPOINT_SLICE, endpoint_slice(stray, name="short-stray"), foreign)
    assert [one.uid for one in cluster.table.pools["serving/short"].replicas] == ["a"]


def test_what_a_relist_no_longer_shows_is_removed(cluster: Cluster) -> None:
    cluster.put(Kind.POOL, pool("other", model="other"))
    cluster.view.keep_only(Kind.POOL, [pool("other")])
    cluster.view.keep_only(Kind.ENDPOINT_SLICE, [])
    cluster.settle()
    assert set(cluster.table.pools) == {"serving/other"}
    assert set(cluster.table.routes) == {"other"}


def test_a_version_that_is_known_already_changes_nothing(cluster: Cluster) -> None:
    item = pool(weight=5)
    cluster.put(Kind.POOL, item)
    generation = cluster.table.generation
    cluster.put(Kind.POOL, item)
    assert cluster.table.generation == generation


def test_a_pool_that_is_being_deleted_takes_nothing_new(cluster: Cluster) -> None:
    cluster.put(Kind.POOL, pool(deleting=True))
    assert "serving/short" in cluster.table.pools
    assert not cluster.table.routes


def test_the_namespace_that_claimed_a_model_first_serves_it_alone(cluster: Cluster) -> None:
    cluster.put(Kind.POOL, pool("late", "elsewhere", created="2026-02-01T00:00:00Z"))
    assert [one.key for one in cluster.table.routes["tiny"].classes[0].pools] == ["serving/short"]
    assert not cluster.table.pools["elsewhere/late"].serving
    cluster.view.delete(Kind.POOL, {"name": "short", "namespace": "serving"})
    cluster.settle()
    assert [one.key for one in cluster.table.routes["tiny"].classes[0].pools] == ["elsewhere/late"]


def test_a_conflict_over_one_alias_takes_the_whole_pool_out_and_frees_the_names_it_did_not_get(
    cluster: Cluster,
) -> None:
    cluster.put(Kind.POOL, pool("second", "elsewhere", created="2026-02-01T00:00:00Z", model="two", aliases=["tiny"]))
    cluster.put(Kind.POOL, pool("third", "third", created="2026-03-01T00:00:00Z", model="two"))
    assert {name: routes.classes[0].pools[0].key for name, routes in cluster.table.routes.items()} == {
        "tiny": "serving/short",
        "two": "third/third",
    }
    cluster.view.delete(Kind.POOL, {"name": "short", "namespace": "serving"})
    cluster.settle()
    assert {name: routes.classes[0].pools[0].key for name, routes in cluster.table.routes.items()} == {
        "tiny": "elsewhere/second",
        "two": "elsewhere/second",
    }


def test_the_installation_may_say_who_owns_a_model() -> None:
    cluster = Cluster(tiny="elsewhere")
    cluster.put(Kind.POOL, pool(), pool("late", "elsewhere", created="2026-02-01T00:00:00Z"))
    assert [one.key for one in cluster.table.routes["tiny"].classes[0].pools] == ["elsewhere/late"]


def test_a_broken_object_is_refused_and_the_one_before_stays(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="maxTotalTokens"):
        cluster.view.put(Kind.POOL, pool(requestClass={"name": "short", "maxTotalTokens": -1}))
    cluster.settle()
    assert cluster.table.pools["serving/short"].spec.class_tokens == 1000


def test_many_pools_are_brought_in_by_small_steps() -> None:
    cluster = Cluster()
    for number in range(50):
        cluster.view.put(Kind.POOL, pool(f"p{number}", model=f"m{number}"))
    steps = 1
    while cluster.view.step(cluster.table):
        steps += 1
    assert len(cluster.table.routes) == 50
    assert steps > 5
