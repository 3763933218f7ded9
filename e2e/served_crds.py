"""Which CRDs an API serves: the present ones, or others that have a field which was given up since."""

import copy
import json
from typing import Any

import yaml
from demo.waiting import NotYet, wait_until

import manifests
from bare_api import BareApi
from bare_pools import SOON
from workslice_cluster.repository import repository

GIVEN_UP = "oldKnob"


def crds() -> list[dict[str, Any]]:
    """The present ones."""
    return [yaml.safe_load(file.read_text()) for file in sorted((repository() / "crds").glob("*.yaml"))]


def with_given_up_field(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a field that was given up since: by it one sees which CRDs the API server goes by."""
    marked = copy.deepcopy(found)
    for crd in marked:
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"][GIVEN_UP] = {"type": "integer"}
    return marked


def serve(bare: BareApi, found: list[dict[str, Any]]) -> None:
    """Replace the CRDs, and return once the API server goes by them."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
    bare.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    given_up = any(GIVEN_UP in json.dumps(crd) for crd in found)
    probe = json.dumps(manifests.pool("probe", "default", "none", "probe", **{GIVEN_UP: 1}))
    unstored = ("create", "--dry-run=server", "--validate=false", "-o", "json", "-f", "-")

    def goes_by_them() -> None:
        said = bare.cluster.kubectl(*unstored, stdin=probe)
        if (GIVEN_UP in said) != given_up:
            raise NotYet("the schema before")

    wait_until("the API server to go by the schema", goes_by_them, seconds=SOON, every=0.3)
