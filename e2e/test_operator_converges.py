"""Whatever happens to the operator or to what it made, the cluster comes back to what the pool says."""

import json
from typing import Any

import pytest
from demo.installation import NAMESPACE as SYSTEM
from demo.waiting import NotYet, wait_until

import manifests
from scratch import Scratch
from workslice_api.names import POOL_LABEL

CHILD = "pool-engine"
OPERATOR = "app.kubernetes.io/component=operator"


@pytest.fixture(scope="module", autouse=True)
def real(module_scratch: Scratch) -> Scratch:
    """A pool `real` of one replica, whose engine starts beside the tests that need none."""
    profile = f"{module_scratch.namespace}-real"
    module_scratch.cluster.apply([manifests.profile(profile, module_scratch.engine_image, slice_profile="1g.10gb")])
    module_scratch.profiles.append(profile)
    module_scratch.pool("real", profile=profile, model=profile)
    return module_scratch


@pytest.fixture
def idle(module_scratch: Scratch) -> Scratch:
    """A pool of one replica that never finds a slice: what its children look like is all these tests need."""
    module_scratch.profile()
    module_scratch.pool()
    module_scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    return module_scratch


def deployment_replicas(scratch: Scratch, wanted: int) -> None:
    found = scratch.cluster.find("deployment", CHILD, scratch.namespace)
    replicas = found["spec"]["replicas"] if found else None
    if replicas != wanted:
        raise NotYet(f"the Deployment has {replicas} replicas")


def test_a_scale_up_and_a_scale_down_end_although_the_operator_is_killed_each_time(idle: Scratch) -> None:
    idle.cluster.patch("wspool", "pool", idle.namespace, {"spec": {"replicas": 3}})
    idle.cluster.kubectl("delete", "pod", "-n", SYSTEM, "-l", OPERATOR, "--force", "--grace-period=0")
    wait_until("three replicas", lambda: deployment_replicas(idle, 3), seconds=60)
    idle.cluster.kubectl("delete", "pod", "-n", SYSTEM, "-l", OPERATOR, "--force", "--grace-period=0")
    idle.cluster.patch("wspool", "pool", idle.namespace, {"spec": {"replicas": 1}})
    wait_until("one replica", lambda: deployment_replicas(idle, 1), seconds=60)


@pytest.mark.parametrize("kind", ["deployment", "service", "poddisruptionbudget", "networkpolicy"])
def test_a_deleted_child_is_made_again(idle: Scratch, kind: str) -> None:
    before = idle.cluster.get(kind, CHILD, idle.namespace)["metadata"]["uid"]
    idle.cluster.kubectl("delete", kind, CHILD, "-n", idle.namespace, "--wait=false")

    def there_again() -> None:
        found = idle.cluster.find(kind, CHILD, idle.namespace)
        if found is None or found["metadata"]["uid"] == before:
            raise NotYet("it is not there" if found is None else "the old one is still there")

    wait_until(f"a new {kind}", there_again, seconds=30)


def test_an_owned_field_that_someone_edits_is_restored(idle: Scratch) -> None:
    idle.cluster.kubectl("scale", f"deployment/{CHILD}", "-n", idle.namespace, "--replicas=5")
    wait_until("one replica again", lambda: deployment_replicas(idle, 1), seconds=30)


def test_a_foreign_variable_stays_and_is_named_in_an_event(idle: Scratch) -> None:
    idle.cluster.kubectl("set", "env", f"deployment/{CHILD}", "-n", idle.namespace, "DEBUG_BY_HAND=1")

    def named() -> None:
        events = idle.cluster.objects("events", idle.namespace)
        messages = [event["message"] for event in events if event["reason"] == "ForeignFields"]
        if not any("DEBUG_BY_HAND" in message for message in messages):
            raise NotYet(f"events: {messages}")

    wait_until("an Event that names the variable", named, seconds=30)
    container = idle.cluster.get("deployment", CHILD, idle.namespace)["spec"]["template"]["spec"]["containers"][0]
    assert "DEBUG_BY_HAND" in json.dumps(container["env"])


def engines(scratch: Scratch) -> list[dict[str, Any]]:
    """The pods of the pool `real`."""
    return [pod for pod in scratch.pods() if pod["metadata"]["labels"][POOL_LABEL] == "real"]


def test_an_engine_that_starts_while_the_operator_is_killed_joins_its_pool(real: Scratch) -> None:
    real.wait_for("Ready", "True", "PoolReady", pool="real", seconds=240)
    (first,) = engines(real)
    real.cluster.patch("wspool", "real", real.namespace, {"spec": {"replicas": 2}})

    def starts() -> None:
        phases = [pod["status"]["phase"] for pod in engines(real)]
        if phases != ["Running"] * 2:
            raise NotYet(f"{phases}")

    wait_until("the second engine to start", starts, seconds=60)
    real.cluster.kubectl("delete", "pod", "-n", SYSTEM, "-l", OPERATOR, "--force", "--grace-period=0")

    def both_ready() -> None:
        ready = real.cluster.get("wspool", "real", real.namespace)["status"].get("readyReplicas")
        if ready != 2:
            raise NotYet(f"{ready} replicas are ready")

    wait_until("both replicas to be ready", both_ready, seconds=240)
    real.wait_for("Ready", "True", "PoolReady", pool="real")
    pods = {pod["metadata"]["uid"] for pod in engines(real)}
    assert len(pods) == 2
    assert first["metadata"]["uid"] in pods
