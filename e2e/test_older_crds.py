"""Objects that were stored under an older schema: they can be read, corrected and deleted, and they harm nobody."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

import manifests
from bare_api import BareApi
from bare_pools import SOON, idle_pool, wait_for_child
from faulty_api import FaultyApi
from operator_process import OperatorProcess, operator_process
from scratch import Scratch
from served_crds import crds, serve, with_given_up_field

RULES = ("x-kubernetes-validations", "minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "format")
QUIET_SECONDS = 5


def older(value: Any) -> Any:
    """A schema as it may have been before it got its rules: types are the same."""
    if isinstance(value, dict):
        return {key: older(one) for key, one in value.items() if key not in RULES or isinstance(one, dict)}
    return [older(one) for one in value] if isinstance(value, list) else value


def crds_before_rules() -> list[dict[str, Any]]:
    """No rules, nothing is required, and a field that was given up since."""
    found = crds()
    for crd in found:
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema.pop("x-kubernetes-validations", None)
        properties = schema["properties"]
        properties["spec"] = older(properties["spec"])
        properties["spec"].pop("required", None)
    return with_given_up_field(found)


@pytest.fixture(scope="module")
def operator(proxy: FaultyApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    with operator_process(tmp_path_factory.mktemp("operator"), proxy.url) as running:
        running.wait_until_it_leads()
        yield running


@pytest.fixture(scope="module")
def stored(bare: BareApi, operator: OperatorProcess) -> Iterator[Scratch]:
    """A pool that is well, and four that were stored before a rule, a required field or the end of a field."""
    with idle_pool(bare, "older") as made:
        serve(bare, crds_before_rules())
        try:
            made.pool("unknown-word", model="a", spillover="Sometimes")
            made.pool("too-many", model="b", replicas=1_000_000)
            made.pool("given-up", model="c", oldKnob=3)
            lacks = manifests.pool("lacks-a-class", made.namespace, made.namespace, "d")
            del lacks["spec"]["requestClass"]
            made.cluster.apply([lacks, broken_profile(made)])
        finally:
            serve(bare, crds())
        yield made
        made.cluster.kubectl("delete", "wsprof", f"{made.namespace}-broken", "--ignore-not-found")
    assert operator.alive, operator.log.read_text()[-3000:]


def broken_profile(pool: Scratch) -> dict[str, Any]:
    return manifests.profile(f"{pool.namespace}-broken", pool.engine_image, memory={"host": "3Gi", "gpuUtilization": 3})


def wait_until_told(pool: Scratch, name: str, field: str) -> None:
    message = pool.wait_for("Degraded", "True", "SpecInvalid", pool=name, saying=field, seconds=SOON)
    assert "kubectl edit" in message


BROKEN = {
    "unknown-word": ("spec.spillover", {"spillover": "Soft"}),
    "too-many": ("spec.replicas", {"replicas": 1}),
    "lacks-a-class": ("spec.requestClass", {"requestClass": {"name": "any", "maxTotalTokens": 8192}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_pool_that_the_present_schema_refuses_says_so_and_can_be_read_and_labelled(
    stored: Scratch, name: str
) -> None:
    field, _ = BROKEN[name]
    wait_until_told(stored, name, field)
    assert stored.cluster.find("deployment", f"{name}-engine", stored.namespace) is None
    stored.cluster.kubectl("label", "wspool", name, "-n", stored.namespace, "team=a", "--overwrite")
    wait_until_told(stored, name, field)
    assert "SpecInvalid" in stored.events(name)


def test_nothing_is_tried_over_and_over_on_them(stored: Scratch, proxy: FaultyApi) -> None:
    for name, (field, _) in BROKEN.items():
        wait_until_told(stored, name, field)
    began = time.monotonic()

    def over() -> None:
        if time.monotonic() - began < QUIET_SECONDS:
            raise NotYet("time goes by")

    wait_until("some seconds of quiet", over, seconds=QUIET_SECONDS + 5, every=0.2)
    asked = [one for one in proxy.asked_since(began) if any(f"/{name}" in one.path for name in BROKEN)]
    assert asked == []


def test_a_pool_with_a_field_that_was_given_up_works(stored: Scratch) -> None:
    wait_for_child(stored, name="given-up-engine")
    assert "oldKnob" not in stored.cluster.get("wspool", "given-up", stored.namespace)["spec"]


def test_a_profile_that_the_present_schema_refuses_says_so_and_is_corrected(stored: Scratch) -> None:
    name = f"{stored.namespace}-broken"
    wait_until("the profile to say so", lambda: accepted(stored, name, "False", "SpecInvalid"), seconds=SOON, every=0.3)
    stored.cluster.patch("wsprof", name, "default", {"spec": {"memory": {"gpuUtilization": 0.9}}})
    wait_until("the profile to be read", lambda: accepted(stored, name, "False", "SliceNotInCluster"), seconds=SOON)


def accepted(pool: Scratch, name: str, status: str, reason: str) -> None:
    found = condition(pool.cluster.get("wsprof", name), "Accepted")
    if (found["status"], found["reason"]) != (status, reason):
        raise NotYet(str(found))


@pytest.mark.parametrize("name", BROKEN)
def test_a_corrected_pool_goes_on(stored: Scratch, name: str) -> None:
    field, correction = BROKEN[name]
    wait_until_told(stored, name, field)
    stored.cluster.patch("wspool", name, stored.namespace, {"spec": correction})
    wait_for_child(stored, name=f"{name}-engine")
    stored.wait_for("Degraded", "False", "AsExpected", pool=name, seconds=SOON)


def test_one_that_nobody_corrects_can_be_deleted(bare: BareApi, stored: Scratch) -> None:
    serve(bare, crds_before_rules())
    stored.pool("hopeless", model="e", spillover="Never")
    serve(bare, crds())
    wait_until_told(stored, "hopeless", "spec.spillover")
    stored.cluster.kubectl("delete", "wspool", "hopeless", "-n", stored.namespace, "--timeout=10s")
    assert stored.cluster.find("wspool", "hopeless", stored.namespace) is None
