"""What pods write to the API is found in its audit log, by whom and in which order."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from demo.installation import NAMESPACE

from workslice_cluster import audit_log, configuration_files
from workslice_cluster.audit_log import Turn, Write
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import Instance

ACCOUNT = "system:serviceaccount:system:operator"
START = datetime(2026, 1, 1, tzinfo=UTC)


def event(pod: str, second: float, **more: Any) -> str:
    """A line of the log: a write that takes half a second."""
    times = [(START + timedelta(seconds=second + later)).isoformat() for later in (0, 0.5)]
    user = {"username": ACCOUNT, "extra": {"authentication.kubernetes.io/pod-name": [pod]}}
    about = {"resource": "workspacepools", "subresource": "status", "namespace": "shop", "name": "chat"}
    whole = {
        "stage": "ResponseComplete",
        "verb": "patch",
        "user": user,
        "objectRef": about,
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": times[0],
        "stageTimestamp": times[1],
    }
    return json.dumps(whole | more) + "\n"


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    one = Instance(0, tmp_path, tmp_path / "cluster")
    one.log.mkdir(parents=True)
    return one


def seconds_of(writes: list[Write]) -> list[float]:
    return [(write.began - START).total_seconds() for write in writes]


def test_a_write_says_who_wrote_what_and_when() -> None:
    (write,) = audit_log.parsed([event("a", 1)])
    assert (write.account, write.pod) == (ACCOUNT, "a")
    assert (write.verb, write.resource, write.namespace, write.name) == (
        "patch",
        "workspacepools/status",
        "shop",
        "chat",
    )
    assert write.status == 200
    assert write.ended - write.began == timedelta(seconds=0.5)


def test_a_request_without_a_pod_or_an_object_is_read_too() -> None:
    (write,) = audit_log.parsed([event("", 1, user={"username": "someone"}, objectRef={})])
    assert (write.account, write.pod, write.resource) == ("someone", "", "")


def test_only_what_has_ended_counts() -> None:
    assert list(audit_log.parsed([event("a", 1, stage="Panic")])) == []


def test_writes_are_those_of_one_account_since_a_time_in_order(instance: Instance) -> None:
    other = event("b", 4, user={"username": "system:serviceaccount:system:router"})
    audit_log.path_of(instance).write_text(event("a", 3) + other + event("a", 2) + event("a", 1))
    assert seconds_of(audit_log.writes_since(instance, ACCOUNT, START + timedelta(seconds=2))) == [2, 3]


def test_rotated_files_are_read_too(instance: Instance) -> None:
    current = audit_log.path_of(instance)
    current.write_text(event("a", 2))
    current.with_name("audit-2026-01-01T00-00-01.000.log").write_text(event("a", 1))
    assert seconds_of(audit_log.writes_since(instance, ACCOUNT, START)) == [1, 2]


def test_a_line_that_is_being_written_is_left_for_the_next_look(instance: Instance) -> None:
    audit_log.path_of(instance).write_text(event("a", 1) + event("a", 2)[:40])
    assert seconds_of(audit_log.writes_since(instance, ACCOUNT, START)) == [1]


def test_a_cluster_without_a_log_says_what_to_do(instance: Instance) -> None:
    with pytest.raises(ClusterError, match="older checkout; run `down`, then `up`"):
        audit_log.writes_since(instance, ACCOUNT, START)


def test_writers_that_take_turns_are_told_apart() -> None:
    found = audit_log.turns(audit_log.parsed([event("a", 1), event("a", 2), event("b", 3), event("a", 4)]))
    assert [(turn.pod, turn.writes) for turn in found] == [("a", 2), ("b", 1), ("a", 1)]


def test_a_turn_ends_with_its_last_write_even_if_that_did_not_begin_last() -> None:
    slow = event("a", 1, stageTimestamp=(START + timedelta(seconds=9)).isoformat())
    (turn,) = audit_log.turns(audit_log.parsed([slow, event("a", 2)]))
    assert turn == Turn("a", START + timedelta(seconds=1), START + timedelta(seconds=9), 2)


def test_reads_that_lie_beside_them_are_no_writes(instance: Instance) -> None:
    read = event("a", 1).replace('"verb": "patch"', '"verb":"list"')
    audit_log.path_of(instance).write_text(read + event("a", 2))
    assert seconds_of(audit_log.writes_since(instance, ACCOUNT, START)) == [2]


def test_only_workslices_own_reads_are_recorded_and_nothing_of_kubernetes_own_controllers(instance: Instance) -> None:
    policy = json.loads(configuration_files.of_control_plane(instance)["audit-policy.json"])
    controllers, workslice, pods, rest = policy["rules"]
    assert controllers == {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]}
    assert workslice == {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]}
    assert pods["level"] == "Metadata"
    assert not {"get", "list", "watch"} & set(pods["verbs"])
    assert rest == {"level": "None"}
