"""Operators whose clocks are a minute ahead and a minute behind: the Lease, drains and what a pool remembers work all the same."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from demo.waiting import NotYet, wait_until

from bare_api import SYSTEM, BareApi
from bare_pools import CHILD, idle_pool, wait_for_child
from faulty_api import faulty_api
from operator_process import OperatorProcess, operator_process
from played_kubelet import run_as_a_kubelet_would
from scratch import Scratch

TAKEOVER_SECONDS = 20
DRAIN_SECONDS = 5
SLACK_SECONDS = 15


@pytest.fixture
def server(bare: BareApi) -> Iterator[str]:
    """Where the operators reach the API."""
    with faulty_api(bare) as proxy:
        yield proxy.url


@pytest.fixture
def ahead(tmp_path: Path, server: str) -> Iterator[OperatorProcess]:
    """It leads, with a clock that is a minute ahead."""
    with operator_process(tmp_path, server, "ahead", clock_ahead=60) as running:
        running.wait_until_it_leads()
        yield running


@pytest.fixture
def behind(tmp_path: Path, server: str, ahead: OperatorProcess) -> Iterator[OperatorProcess]:
    """It waits for the Lease, with a clock that is a minute behind."""
    with operator_process(tmp_path, server, "behind", clock_ahead=-60) as running:
        wait_until("it to be a candidate", lambda: says(running, "waiting for the lease, held by ahead"), seconds=60)
        yield running


def says(operator: OperatorProcess, words: str) -> None:
    if words not in operator.log.read_text():
        raise NotYet(operator.log.read_text()[-500:])


def renewed(bare: BareApi) -> datetime:
    """When the Lease was renewed, by its holder's clock."""
    return datetime.fromisoformat(bare.cluster.get("lease", "workslice-operator", SYSTEM)["spec"]["renewTime"])


def test_a_drain_that_began_by_a_clock_ahead_ends_in_its_time_by_one_behind(
    bare: BareApi, tmp_path: Path, server: str, ahead: OperatorProcess, behind: OperatorProcess
) -> None:
    assert (renewed(bare) - datetime.now(UTC)).total_seconds() > 30, "the clock is shifted"
    with idle_pool(bare, "clocks") as pool:
        pool.cluster.patch("wspool", "pool", pool.namespace, {"spec": {"replicas": 2}})
        wait_for_child(pool, replicas=2)
        run_as_a_kubelet_would(pool)
        pool.cluster.patch("wspool", "pool", pool.namespace, {"spec": {"replicas": 1}})
        wait_until("a replica to be asked to go", lambda: draining(pool), seconds=SLACK_SECONDS, every=0.2)
        assert not behind.leads
        ahead.stop()
        wait_until("the other to take over", lambda: leads(behind), seconds=TAKEOVER_SECONDS, every=0.2)
        wait_until("the replica to go", lambda: one_replica(pool), seconds=DRAIN_SECONDS + SLACK_SECONDS, every=0.2)
        assert (datetime.now(UTC) - renewed(bare)).total_seconds() > 30
    with operator_process(tmp_path, server, "back", clock_ahead=60) as back:
        wait_until("it to be a candidate", lambda: says(back, "waiting for the lease, held by behind"), seconds=60)
        since = renewed(bare)
        wait_until("three more renewals", lambda: later(bare, since, 6), seconds=SLACK_SECONDS, every=0.5)
        assert behind.alive
        assert behind.leads, "a Lease that looks two minutes old by one's own clock is not to be taken"
        assert not back.leads


def draining(pool: Scratch) -> None:
    status = pool.cluster.get("wspool", "pool", pool.namespace)["status"]
    if not status.get("drainMarks"):
        raise NotYet(str(status))


def leads(operator: OperatorProcess) -> None:
    if not operator.leads:
        raise NotYet(operator.log.read_text()[-500:])


def one_replica(pool: Scratch) -> None:
    status = pool.cluster.get("wspool", "pool", pool.namespace)["status"]
    if pool.cluster.get("deployment", CHILD, pool.namespace)["spec"]["replicas"] != 1:
        raise NotYet(str(status["drainMarks"]))


def later(bare: BareApi, since: datetime, seconds: float) -> None:
    if (left := seconds - (renewed(bare) - since).total_seconds()) > 0:
        raise NotYet(f"{left:.1f} s")
