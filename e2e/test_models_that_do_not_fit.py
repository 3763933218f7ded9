"""A profile says whether its model fits its slice: before any pod starts by the model's shape, afterwards by what engines say."""

import json
from pathlib import Path
from typing import Any

import pytest
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation
from scratch import Scratch
from workslice_api.quantity import quantity_bytes

EIGHT_BILLION = {
    "parameters": 8_030_261_248,
    "layers": 32,
    "hiddenSize": 4096,
    "intermediateSize": 14336,
    "kvHeads": 8,
    "headSize": 128,
    "vocabulary": 128_256,
}


def shaped(**shape: int) -> dict[str, Any]:
    return {"source": "pvc://models/no-such-model", "shape": EIGHT_BILLION | shape}


def wait_for_fit(installation: Installation, profile: str, status: str, reason: str) -> dict[str, Any]:
    """Wait for the verdict, and return the profile's status."""

    def look() -> dict[str, Any]:
        raw = installation.cluster.get("wsprof", profile)
        found = condition(raw, "Fits")
        if (found["status"], found["reason"]) != (status, reason):
            raise NotYet(f"Fits={found['status']} {found['reason']}: {found['message']}")
        return dict(raw["status"])

    return wait_until(f"Fits={status} of {profile} because {reason}", look, seconds=60)


def test_a_model_without_room_starts_nothing_until_its_profile_is_edited_to_fit(
    scratch: Scratch, installation: Installation
) -> None:
    profile = scratch.profile(model=shaped(), slice_profile="1g.10gb", memory={"host": "3Gi"})
    scratch.pool()
    message = scratch.wait_for("ProfileReady", "False", "ProfileDoesNotFit", saying="weights 15.0 GiB")
    assert message.endswith("use a 1g.20gb slice (19.6 GiB)")
    (row,) = wait_for_fit(installation, profile, "False", "DoesNotFit")["slices"]
    assert (row["fits"], row["usableBytes"]) == (False, 9984 * 2**20), "as the node's label says"
    assert (scratch.pods(), scratch.cluster.objects("deployments", scratch.namespace)) == ([], [])

    slices = {"profiles": ["7g.80gb", "1g.10gb"]}
    scratch.profile(model=shaped(parameters=10**9, vocabulary=32_000), slice=slices, memory={"host": "3Gi"})
    scratch.wait_for("ProfileReady", "True", "ProfileFound")
    scratch.wait_for("SlicesGranted", "True", "SlicesAvailable", saying="1 of 1")
    assert wait_for_fit(installation, profile, "True", "Estimated")["slice"] == "1g.10gb"
    chosen = scratch.cluster.get("wspool", "pool", scratch.namespace)["status"]["slices"]
    assert (chosen["profile"], chosen["message"]) == ("1g.10gb", "no node has a 7g.80gb")


def test_what_engines_say_of_their_kv_cache_stands_in_the_profile(pools: Installation, models_folder: Path) -> None:
    (row,) = wait_for_fit(pools, "demo-short", "True", "Measured")["slices"]
    assert (row["source"], row["fits"]) == ("measured", True)
    kv_cache = quantity_bytes(pools.cluster.get("wsprof", "demo-short")["spec"]["memory"]["kvCache"])
    config = json.loads((models_folder / MODEL / "config.json").read_text())
    per_token = 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    assert row["kvTokens"] == pytest.approx(kv_cache / per_token, rel=0.05)
