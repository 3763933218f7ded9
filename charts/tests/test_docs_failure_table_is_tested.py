"""What docs/operations.md says of failures is held by end-to-end tests that exist, and what it says of fields by the CRDs."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workslice_api.base import LIVE, ROLLS
from workslice_api.crdgen import pool_crd, profile_crd

ROOT = Path(__file__).parents[2]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
_, _, FAILURES = OPERATIONS.partition("## When something breaks")
ROWS = [line.strip("| ").split(" | ") for line in FAILURES.splitlines() if re.match(r"\| (?!What breaks|---)", line)]


def test_every_failure_says_what_callers_see_what_happens_what_to_do_and_names_a_test_that_exists() -> None:
    assert len(ROWS) > 15
    for row in ROWS:
        assert len(row) == 5, row
        files = re.findall(r"`(test_\w+\.py)`", row[-1])
        assert files, row
        assert [name for name in files if not (ROOT / "e2e" / name).exists()] == [], row


def rolling(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Paths of the settings that replace engines."""
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        if ROLLS in child.get("description", ""):
            yield here
        else:
            yield from rolling(child, here)


def settings(crd: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def test_the_fields_that_are_said_to_roll_are_those_that_do() -> None:
    assert (
        "everything of a profile but `model.shape` and\n`allowedNamespaces`; of a pool `profileRef`, `drain.timeout` and `template`."
        in OPERATIONS
    )
    assert {re.sub(r"^(profileRef|template)\..*", r"\1", path) for path in rolling(settings(pool_crd()))} == {
        "profileRef",
        "drain.timeout",
        "template",
    }
    of_profile = settings(profile_crd())
    assert LIVE in of_profile["properties"]["model"]["properties"].pop("shape")["description"]
    assert LIVE in of_profile["properties"].pop("allowedNamespaces")["description"]
    assert LIVE not in str(of_profile)
