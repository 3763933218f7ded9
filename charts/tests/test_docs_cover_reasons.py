"""The documentation explains every reason a user can meet, and none that no longer exists."""

import re
from pathlib import Path

from workslice_api.names import ConditionType, Reason
from workslice_router.openai_errors import Reason as ErrorReason

TROUBLESHOOTING = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()


def explained(text: str) -> set[str]:
    """Names in the first column of the tables."""
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_every_reason_of_a_condition_is_explained_and_no_other() -> None:
    conditions, _, _ = TROUBLESHOOTING.partition("## Errors of the endpoint")
    assert explained(conditions) == {reason.value for reason in Reason}


def test_every_reason_of_a_router_error_is_explained_and_no_other() -> None:
    _, _, errors = TROUBLESHOOTING.partition("## Errors of the endpoint")
    assert explained(errors) == {reason.value for reason in ErrorReason}


def test_every_condition_has_a_section() -> None:
    for condition in ConditionType:
        assert re.search(rf"^## .*\b{condition.value}$", TROUBLESHOOTING, re.MULTILINE), condition.value


def test_every_explanation_says_what_to_do() -> None:
    for line in TROUBLESHOOTING.splitlines():
        if line.startswith("| `"):
            assert len(line.replace("\\|", "").rstrip(" |").split(" | ")[-1]) > 7, line
