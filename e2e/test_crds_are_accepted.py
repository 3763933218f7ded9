"""The CRDs do what a Kubernetes user expects of them: explain, columns, short names, category, scale."""

import json
from pathlib import Path

import pytest

from installed import Installation
from scratch import Scratch

CRDS = Path(__file__).parents[1] / "crds"


def test_the_api_server_accepts_the_crds_without_a_complaint(installation: Installation) -> None:
    said = installation.cluster.kubectl(
        "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", str(CRDS)
    )
    assert "workspacepools.workslice.dev" in said
    for name in ("workspacepools.workslice.dev", "workspaceprofiles.workslice.dev"):
        conditions = installation.cluster.get("crd", name)["status"]["conditions"]
        by_type = {found["type"]: found["status"] for found in conditions}
        assert by_type["Established"] == "True"
        assert by_type.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize(
    "path", ["wspool.spec.scaling.mode", "wspool.spec.drain.timeout", "wsprof.spec.memory.kvCache"]
)
def test_kubectl_explain_says_whether_a_field_is_live_or_rolls(installation: Installation, path: str) -> None:
    words = " ".join(installation.cluster.kubectl("explain", path).split())
    assert "Live:" in words or "Rolls:" in words


POOL_HEADS = ["NAME", "MODEL", "CLASS", "PROFILE", "DESIRED", "READY", "QUEUE", "READY-CONDITION", "AGE"]
PROFILE_HEADS = ["NAME", "MODEL", "SLICE", "TOKENS", "HOST", "POOLS", "ACCEPTED", "FITS", "AGE"]


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (("wspool",), POOL_HEADS),
        (("wspool", "-o", "wide"), [*POOL_HEADS, "SLICE", "GRANTED", "REASON", "MESSAGE"]),
        (("wsprof",), PROFILE_HEADS),
        (("wsprof", "-o", "wide"), [*PROFILE_HEADS, "MESSAGE", "CHOSEN", "FIT"]),
    ],
    ids=["pools", "pools in full", "profiles", "profiles in full"],
)
def test_the_columns_tell_the_whole_story(pools: Installation, words: tuple[str, ...], heads: list[str]) -> None:
    listed = pools.cluster.kubectl("get", *words, "-n", "demo").splitlines()
    assert listed[0].split() == heads


def test_the_category_lists_profiles_and_pools(pools: Installation) -> None:
    listed = pools.cluster.kubectl("get", "workslice", "-n", "demo", "-o", "name")
    assert "workspacepool.workslice.dev/short" in listed
    assert "workspaceprofile.workslice.dev/demo-short" in listed


def test_the_scale_subresource_never_errors(scratch: Scratch) -> None:
    scratch.profile()
    scratch.pool()  # read at once, when there may be no status yet
    path = f"/apis/workslice.dev/v1alpha1/namespaces/{scratch.namespace}/workspacepools/pool/scale"
    assert json.loads(scratch.cluster.kubectl("get", "--raw", path))["spec"]["replicas"] == 1
    scratch.cluster.kubectl("scale", "wspool/pool", "-n", scratch.namespace, "--replicas=2")
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    assert json.loads(scratch.cluster.kubectl("get", "--raw", path))["status"]["selector"]
