"""Engines of a pool stay on what was ready: through an operator that renders otherwise, and after a change that does not come up."""

import hashlib
import json
from typing import Any

import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import cluster_tool
from demo.pool_state import condition
from demo.question import ask
from demo.waiting import NotYet, wait_until

import manifests
from installed import Installation
from scratch import Scratch
from workslice_cluster import images

MODEL = "outlives"
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


def apply_profile(scratch: Scratch, image: str = "") -> None:
    memory = {"host": "256Mi", "kvCache": "128Mi"}
    engine = manifests.engine(image or scratch.engine_image)
    made = manifests.profile(
        scratch.namespace, scratch.engine_image, slice_profile="1g.10gb", memory=memory, engine=engine
    )
    scratch.cluster.apply([made])


def test_the_only_replica_goes_back_when_a_change_does_not_come_up(installation: Installation, pool: Scratch) -> None:
    (before,) = pool.pods()
    apply_profile(pool, "registry.invalid/no-such-engine:1")
    message = pool.wait_for("Degraded", "True", "TakenBack", seconds=60)
    assert "no-such-engine" in message
    pool.wait_for("Ready", "True", "PoolReady", seconds=60)
    (after,) = pool.pods()
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
