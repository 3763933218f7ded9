"""Operator and router have no right that they do not use: the API server's audit log of the whole run shows it, or a reason is written.

It comes last of all tests of the cluster; see conftest.py.
"""

from pathlib import Path

import pytest
from demo.installation import NAMESPACE as SYSTEM
from seldom_used_rights import SELDOM

from installed import Installation
from workslice_cluster import audit_log, instance
from workslice_cluster.used_rights import Right, rights_of, unused

E2E = Path(__file__).parent


def is_whole(session: pytest.Session) -> bool:
    """Whether all tests of this folder run that are not soak tests."""
    files = [file for file in E2E.glob("test_*.py") if "pytestmark = pytest.mark.soak" not in file.read_text()]
    return {item.path for item in session.items} >= set(files)


@pytest.mark.embedded
@pytest.mark.parametrize("component", ["operator", "router"])
def test_every_right_is_used_or_has_a_reason(
    installation: Installation, request: pytest.FixtureRequest, component: str
) -> None:
    if not is_whole(request.session):
        pytest.skip("judges whole runs: make test, make e2e")
    roles = [installation.cluster.get("clusterrole", f"workslice-{component}")]
    roles += [
        role
        for role in installation.cluster.objects("roles", SYSTEM)
        if role["metadata"]["name"] == f"workslice-{component}"
    ]
    granted: frozenset[Right] = frozenset().union(*map(rights_of, roles))
    account = f"system:serviceaccount:{SYSTEM}:workslice-{component}"
    left = unused(granted, account, audit_log.lines_of(instance.from_environment()))
    names = sorted(str(one) for one in left)
    print(f"{len(granted)} rights, {len(granted) - len(left)} used; not used: {names}")
    assert [name for name in names if name not in SELDOM] == [], "take them out of the chart, or write down why not"
