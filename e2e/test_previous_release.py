"""What earlier releases have left in a cluster, taken over by the present CRDs and operator: no engine is restarted.

e2e/record_release.py has written it down: it is what those releases' own operators wrote.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo.waiting import NotYet, wait_until

from bare_api import BareApi
from bare_pools import SOON
from faulty_api import FaultyApi
from operator_process import OperatorProcess, operator_process
from played_kubelet import run_as_a_kubelet_would
from scratch import Scratch
from served_crds import crds, serve, with_given_up_field
from workslice_api.names import FIELD_MANAGER, STATUS_FIELD_MANAGER, TEMPLATE_HASH_ANNOTATION

RELEASES = sorted((Path(__file__).parent / "releases").glob("*.yaml"))
assert RELEASES, "no release is recorded: see record_release.py"


@pytest.fixture(scope="module", params=RELEASES, ids=lambda file: file.stem)
def left(bare: BareApi, request: pytest.FixtureRequest) -> Iterator[list[dict[str, Any]]]:
    """The Deployments that a release has left, with their pods; the API goes by the present CRDs."""
    text = request.param.read_text()
    serve(bare, with_given_up_field(yaml.safe_load(text)["crds"]))
    try:
        text = store_objects(bare, text)
    finally:
        serve(bare, crds())
    applied = yaml.safe_load(text)["applied"]
    bare.cluster.apply(applied, "--server-side", f"--field-manager={FIELD_MANAGER}")
    deployments = [one for one in applied if one["kind"] == "Deployment"]
    for one in deployments:
        run_as_a_kubelet_would(pools_of(bare, one), one["metadata"]["name"])
    yield [bare.cluster.get("deployment", one["metadata"]["name"], one["metadata"]["namespace"]) for one in deployments]
    for one in yaml.safe_load(text)["objects"]:
        where = ("-n", one["metadata"].get("namespace", "default"))
        if one["kind"] != "Namespace":
            bare.cluster.kubectl("delete", one["kind"], one["metadata"]["name"], *where)


def store_objects(bare: BareApi, text: str) -> str:
    """Make profiles and pools with their statuses, and return the text of the record with the UIDs that they got."""
    for one in yaml.safe_load(text)["objects"]:
        metadata = {key: value for key, value in one["metadata"].items() if key != "uid"}
        status = {key: one[key] for key in ("apiVersion", "kind", "status") if key in one} | {"metadata": metadata}
        made = {key: value for key, value in one.items() if key != "status"} | {"metadata": metadata}
        bare.cluster.apply([made], "--server-side", "--field-manager=people")
        if "status" in one:
            manager = f"--field-manager={STATUS_FIELD_MANAGER}"
            bare.cluster.apply([status], "--server-side", "--subresource=status", "--validate=false", manager)
        live = bare.cluster.get(one["kind"], metadata["name"], metadata.get("namespace", "default"))
        assert live.get("spec") == one.get("spec") or one["kind"] == "Namespace", "it is stored as that release did"
        text = text.replace(one["metadata"]["uid"], live["metadata"]["uid"])
    return text


@pytest.fixture(scope="module")
def operator(
    left: list[dict[str, Any]], proxy: FaultyApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The present one."""
    with operator_process(tmp_path_factory.mktemp("operator"), proxy.url) as running:
        running.wait_until_it_leads()
        yield running
        assert running.said("error") == []


def pools_of(bare: BareApi, deployment: dict[str, Any]) -> Scratch:
    return Scratch(bare.cluster, deployment["metadata"]["namespace"], "", Path())


def pool_of(deployment: dict[str, Any]) -> str:
    return str(deployment["metadata"]["name"]).removesuffix("-engine")


def test_the_present_operator_restarts_no_engine(
    bare: BareApi, left: list[dict[str, Any]], operator: OperatorProcess
) -> None:
    for before in left:
        pools = pools_of(bare, before)
        pools.wait_for("Outdated", "True", "RenderingWaits", pool=pool_of(before), seconds=SOON)
        pools.wait_for("Ready", "True", "PoolReady", pool=pool_of(before), seconds=SOON)
        pools.wait_for("Degraded", "False", "AsExpected", pool=pool_of(before), seconds=SOON)
        now = bare.cluster.get("deployment", before["metadata"]["name"], before["metadata"]["namespace"])
        assert now["spec"]["template"] == before["spec"]["template"]
        assert now["spec"]["replicas"] == before["spec"]["replicas"]
        assert template_hash(now) == template_hash(before)


def test_the_present_rendering_is_taken_when_somebody_asks_for_it(
    bare: BareApi, left: list[dict[str, Any]], operator: OperatorProcess
) -> None:
    before = left[0]
    where = (pool_of(before), "-n", before["metadata"]["namespace"])
    bare.cluster.kubectl("annotate", "wspool", *where, "workslice.dev/rendering=latest")

    def taken() -> dict[str, Any]:
        now = bare.cluster.get("deployment", before["metadata"]["name"], before["metadata"]["namespace"])
        if template_hash(now) == template_hash(before):
            raise NotYet("it has the earlier template")
        return now

    now = wait_until("the present template", taken, seconds=SOON, every=0.3)
    assert now["spec"]["template"] != before["spec"]["template"]


def template_hash(deployment: dict[str, Any]) -> str:
    return str(deployment["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION])
