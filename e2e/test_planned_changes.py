"""`python -m workslice_operator plan` tells on the real API server what an edit would change, and changes nothing."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import manifests
from scratch import Scratch


class Edited:
    """A pool with one pending pod, and the files that declare it."""

    def __init__(self, scratch: Scratch) -> None:
        self.scratch = scratch
        scratch.profile()
        scratch.pool()
        scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")

    def plan(self, profile: dict[str, Any] | None = None, **spec: Any) -> tuple[int, str]:
        """Exit status and everything said for files that differ from what is there in these fields."""
        name = self.scratch.namespace
        objects = [
            manifests.profile(name, self.scratch.engine_image, **(profile or {})),
            manifests.pool("pool", name, name, name) | {"metadata": {"name": "pool"}},
        ]
        objects[1]["spec"] |= spec
        done = subprocess.run(
            [sys.executable, "-m", "workslice_operator", "plan", "-n", name, "-f", "-"],
            input=json.dumps({"kind": "List", "items": objects}),
            env=os.environ | {"KUBECONFIG": str(self.scratch.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def versions(self) -> dict[str, str]:
        """Resource versions of the profile, the pool and the engine Deployment's spec."""
        cluster, name = self.scratch.cluster, self.scratch.namespace
        found = {
            "profile": cluster.get("wsprof", name)["metadata"]["generation"],
            "pool": cluster.get("wspool", "pool", name)["metadata"]["generation"],
            "deployment": cluster.get("deployment", "pool-engine", name)["metadata"]["generation"],
        }
        return {kind: str(generation) for kind, generation in found.items()}


@pytest.fixture(scope="module")
def edited(module_scratch: Scratch) -> Edited:
    return Edited(module_scratch)


def test_files_as_they_were_applied_change_nothing(edited: Edited) -> None:
    assert edited.plan() == (0, f"# WorkspacePool {edited.scratch.namespace}/pool: no change\n")


def test_a_rolling_edit_names_the_pods_that_it_would_replace_and_is_not_done(edited: Edited) -> None:
    before = edited.versions()
    status, said = edited.plan({"workspace": {"maxTokens": 9000, "maxConcurrent": 8}})
    assert status == 1
    assert "1 engine pod to replace, one at a time" in said
    assert "-        - '8192'\n+        - '9000'\n" in said
    assert edited.versions() == before


def test_a_live_edit_replaces_nothing(edited: Edited) -> None:
    status, said = edited.plan(replicas=2)
    assert status == 1
    assert "from 1 to 2 engine pods; no engine pod is replaced" in said


def test_what_the_api_server_would_refuse_is_told_in_its_words(edited: Edited) -> None:
    status, said = edited.plan(model="another")
    assert status == 2
    assert "spec.model cannot be changed: make a new pool for another model" in said
