"""Engines of a pool stay on what was ready: until a changed one has come up beside them where a slice is free, after a change that does
not come up, and through an operator that renders otherwise.
"""

import hashlib
import json
from typing import Any

import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import cluster_tool
from demo.load import Load
from demo.pool_state import condition
from demo.question import ask
from demo.waiting import NotYet, wait_until

import manifests
from installed import Installation
from router_accounts import rotations, router_states
from scratch import Scratch
from workslice_cluster import images

MODEL, OTHER = "outlives", "outlives-too"
SMALL = "nvidia.com/mig-1g.10gb"
HASH, READY = "workslice.dev/template-hash", "workslice.dev/ready-template"


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """One replica of the simulated engine."""
    archive, reference = images.ensure("engine-sim")
    cluster_tool("load", str(archive))
    module_scratch.engine_image = reference
    apply_profile(module_scratch)
    module_scratch.profiles = [module_scratch.namespace]
    module_scratch.pool(model=MODEL)
    module_scratch.wait_for("Ready", "True", "PoolReady", seconds=90)
    return module_scratch


def apply_profile(scratch: Scratch, image: str = "", **env: str) -> None:
    memory = {"host": "256Mi", "kvCache": "128Mi"}
    engine = manifests.engine(image or scratch.engine_image)
    engine["env"] = [{"name": name, "value": value} for name, value in env.items()]
    made = manifests.profile(
        scratch.namespace, scratch.engine_image, slice_profile="1g.10gb", memory=memory, engine=engine
    )
    scratch.cluster.apply([made])


def test_with_a_slice_free_the_only_replica_serves_until_its_successor_is_ready(
    installation: Installation, pool: Scratch
) -> None:
    (before,) = pool.pods()
    served: list[bool] = []

    def only_the_new_one() -> None:
        looks = rotations(router_states(pool.cluster), f"{pool.namespace}/pool")
        served.append(all(looks))
        uids = {pod["metadata"]["uid"] for pod in pool.pods()}
        if before["metadata"]["uid"] in uids or any(look != uids for look in looks):
            raise NotYet(f"pods {uids}, in rotation {looks}")

    wait_until("a slice to be free", lambda: free_slices(pool), seconds=120)
    with Load(installation.client(), MODEL, in_flight=2, max_tokens=32) as load:
        load.wait_for_more(4)
        apply_profile(pool, MARK_OF_THE_TEST="1")
        wait_until("the new replica alone to serve", only_the_new_one, seconds=120, every=0.2)
        load.wait_for_more(4)
    assert load.failures == []
    assert all(served), "there was a moment without a replica"
    assert strategy(pool) == {"maxSurge": 1, "maxUnavailable": 0}


def test_with_no_slice_free_two_pools_of_a_changed_profile_are_replaced_all_the_same(
    installation: Installation, pool: Scratch
) -> None:
    wait_until("the replica that was replaced to go", lambda: one_pod(pool), seconds=60)
    pool.pool(OTHER, profile=pool.namespace, model=OTHER, replicas=free_slices(pool))
    pool.wait_for("Ready", "True", "PoolReady", pool=OTHER, seconds=60)
    before = {pod["metadata"]["uid"] for pod in pool.pods()}
    apply_profile(pool)

    def new_ones_only() -> None:
        pods = pool.pods()
        ready = {pod["metadata"]["uid"] for pod in pods if condition(pod, "Ready")["status"] == "True"}
        if not len(pods) == len(ready - before) == len(before):
            raise NotYet(f"{len(pods)} pods, {len(ready - before)} new ones ready")

    wait_until("both pools to run the new version", new_ones_only, seconds=150)
    assert strategy(pool) == strategy(pool, OTHER) == {"maxSurge": 0, "maxUnavailable": 1}
    for model in (MODEL, OTHER):
        assert ask(installation.client(), model, "There?", stream=False, max_tokens=4).finish_reason == "length"
    pool.cluster.kubectl("delete", "wspool", OTHER, "-n", pool.namespace)
    wait_until("its slice to come back", lambda: one_pod(pool), seconds=60)


def free_slices(scratch: Scratch) -> int:
    have = sum(int(node["status"]["allocatable"].get(SMALL, 0)) for node in scratch.cluster.objects("nodes"))
    containers = [one for pod in scratch.cluster.objects("pods") for one in pod["spec"]["containers"]]
    taken = sum(int(one.get("resources", {}).get("limits", {}).get(SMALL, 0)) for one in containers)
    if taken >= have:
        raise NotYet(f"{taken} of {have} are taken")
    return have - taken


def strategy(scratch: Scratch, name: str = "pool") -> dict[str, int]:
    deployment = scratch.cluster.get("deployment", f"{name}-engine", scratch.namespace)
    return dict(deployment["spec"]["strategy"]["rollingUpdate"])


def one_pod(scratch: Scratch) -> None:
    if len(found := scratch.cluster.objects("pods", scratch.namespace)) != 1:
        raise NotYet(f"{len(found)} pods")


def test_the_only_replica_stays_or_goes_back_when_a_change_does_not_come_up(
    installation: Installation, pool: Scratch
) -> None:
    (before,) = pool.pods()
    apply_profile(pool, "registry.invalid/no-such-engine:1")
    message = pool.wait_for("Degraded", "True", "TakenBack", seconds=60)
    assert "no-such-engine" in message
    pool.wait_for("Ready", "True", "PoolReady", seconds=60)
    wait_until("what did not come up to go", lambda: one_pod(pool), seconds=60)
    (after,) = pool.pods()
    assert after["metadata"]["uid"] == before["metadata"]["uid"], (
        "a slice was free, so it had not to go for the new one"
    )
    assert after["spec"]["containers"][0]["image"] == before["spec"]["containers"][0]["image"]
    assert ask(installation.client(), MODEL, "Back again?", stream=False, max_tokens=4).finish_reason == "length"
    apply_profile(pool)
    pool.wait_for("Degraded", "False", "AsExpected", seconds=60)
    assert [pod["metadata"]["uid"] for pod in pool.pods()] == [after["metadata"]["uid"]]


def test_an_operator_that_renders_otherwise_restarts_nothing_until_it_is_asked(pool: Scratch) -> None:
    earlier = rendered_by_an_earlier_operator(pool)
    pool.wait_for("Outdated", "True", "RenderingWaits", seconds=60)
    for word in ("restart", "status"):
        pool.cluster.kubectl("rollout", word, "deployment/workslice-operator", "-n", SYSTEM)
    pool.cluster.kubectl("scale", "wspool/pool", "-n", pool.namespace, "--replicas=2")
    wait_until("a second replica", lambda: two(pool), seconds=60)
    assert earlier in {pod["metadata"]["uid"] for pod in pool.pods()}
    assert {label(pod) for pod in pool.pods()} == {"earlier"}
    pool.cluster.kubectl("annotate", "wspool/pool", "-n", pool.namespace, "workslice.dev/rendering=latest")
    wait_until("the present rendering everywhere", lambda: present_only(pool), seconds=90)
    pool.wait_for("Ready", "True", "PoolReady", seconds=60)
    assert condition(pool.cluster.get("wspool", "pool", pool.namespace), "Outdated")["status"] == "absent"


def rendered_by_an_earlier_operator(pool: Scratch) -> str:
    """Make the Deployment what an operator would have made that gave pods one label more; returns its pod's UID."""
    pool.cluster.kubectl("annotate", "wspool/pool", "-n", pool.namespace, "workslice.dev/paused=true")
    pool.wait_for("Paused", "True", "Paused")
    live = pool.cluster.get("deployment", "pool-engine", pool.namespace)
    record: dict[str, Any] = json.loads(live["metadata"]["annotations"][READY])
    record["template"]["metadata"]["labels"]["rendered"] = "earlier"
    digest = hashlib.sha256(json.dumps(record["template"], sort_keys=True).encode()).hexdigest()[:16]
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "pool-engine",
            "namespace": pool.namespace,
            "labels": live["metadata"]["labels"],
            "ownerReferences": [
                {
                    key: value
                    for key, value in live["metadata"]["ownerReferences"][0].items()
                    if key != "blockOwnerDeletion"
                }
            ],
            "annotations": {HASH: digest, READY: json.dumps(record, sort_keys=True)},
        },
        "spec": {
            key: live["spec"][key]
            for key in ("replicas", "selector", "strategy", "progressDeadlineSeconds", "revisionHistoryLimit")
        }
        | {"template": record["template"]},
    }
    pool.cluster.apply([made], "--server-side", "--force-conflicts", "--field-manager=workslice-operator")
    pool.cluster.kubectl("rollout", "status", "deployment/pool-engine", "-n", pool.namespace, seconds=90)
    pool.cluster.kubectl("annotate", "wspool/pool", "-n", pool.namespace, "workslice.dev/paused-")
    (pod,) = pool.pods()
    assert label(pod) == "earlier"
    return str(pod["metadata"]["uid"])


def label(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get("rendered", "present"))


def two(pool: Scratch) -> None:
    if len(pool.pods()) != 2:
        raise NotYet(f"{len(pool.pods())} pods")


def present_only(pool: Scratch) -> None:
    if [label(pod) for pod in pool.pods()] != ["present"] * 2:
        raise NotYet(str([label(pod) for pod in pool.pods()]))
