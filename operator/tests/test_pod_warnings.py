from typing import Any

import pytest
from fake_kube import FakeKube
from pool_facts import NOW, make_exit, make_pod, ready_pod, unplaced_pod

from workslice_operator import pod_warnings
from workslice_operator.kube_api import Object, Refused, Resource
from workslice_operator.observed import Obstacle, PodFacts
from workslice_operator.pod_warnings import PodWarnings, obstacle

NO_SECRET = 'MountVolume.SetUp failed for volume "certs" : secret "hub" not found'
STUCK = make_pod("a", age=20, phase="Pending", waiting_reason="ContainerCreating", sandboxed=False)


def event(message: str, reason: str = "FailedMount", at: str = "2026-03-01T11:59:00Z", **more: Any) -> dict[str, Any]:
    return {"reason": reason, "message": message, "lastTimestamp": at, **more}


class Warned(FakeKube):
    """Its pods have these warnings."""

    def __init__(self, *events: Object) -> None:
        super().__init__()
        self.events = list(events)
        self.asked: list[tuple[str, str, str]] = []

    async def list(self, resource: Resource, namespace: str = "", labels: str = "", fields: str = "") -> list[Object]:
        self.asked.append((resource.kind, namespace, fields))
        await super().list(resource, namespace)
        return self.events


async def obstacles(kube: FakeKube, *pods: PodFacts) -> list[Obstacle | None]:
    return [pod.obstacle for pod in await PodWarnings(kube).completed("shop", pods, NOW)]


async def test_a_pod_that_does_not_get_its_volumes_gets_the_warning_that_says_why() -> None:
    kube = Warned(event(NO_SECRET))
    assert await obstacles(kube, STUCK) == [Obstacle("FailedMount", NO_SECRET)]
    assert kube.asked == [("Event", "shop", "involvedObject.uid=uid-a,type=Warning")]


async def test_pods_that_are_not_stuck_cost_no_read() -> None:
    kube = Warned(event(NO_SECRET))
    pods = [
        ready_pod(),
        unplaced_pod("b", "0/1 nodes are available"),
        make_pod("c", age=5, sandboxed=False),
        make_pod("d", age=500, waiting_reason="ContainerCreating"),
        make_pod("e", age=500, sandboxed=False, deleting=True),
    ]
    assert await obstacles(kube, *pods) == [None] * 5
    assert kube.asked == []


async def test_a_stuck_pod_is_asked_for_again_but_not_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = Warned()
    warnings = PodWarnings(kube)
    for _ in range(3):
        assert (await warnings.completed("shop", [STUCK], NOW))[0].obstacle is None
    assert len(kube.asked) == 1
    monkeypatch.setattr(pod_warnings, "READ_AGAIN_SECONDS", 0.0)
    kube.events = [event(NO_SECRET)]
    assert (await warnings.completed("shop", [STUCK], NOW))[0].obstacle == Obstacle("FailedMount", NO_SECRET)


GIVEN_UP = make_pod("w", restarts=1, last_exit=make_exit(exit_code=0))
REFUSED = "Startup probe failed: warm-up: /v1/completions answered 400: too long"


async def test_an_engine_that_was_given_up_gets_what_its_warm_up_said() -> None:
    kube = Warned(event(REFUSED, "Unhealthy"), event("Startup probe failed: connection refused", "Unhealthy"))
    (pod,) = await PodWarnings(kube).completed("shop", [GIVEN_UP], NOW, warmed_up=True)
    assert pod.obstacle == Obstacle("Unhealthy", "/v1/completions answered 400: too long")


async def test_the_events_of_engines_that_are_not_warmed_up_or_died_by_themselves_are_not_read() -> None:
    kube = Warned(event(REFUSED, "Unhealthy"))
    crashed = make_pod("c", restarts=1, last_exit=make_exit(exit_code=1))
    await PodWarnings(kube).completed("shop", [GIVEN_UP], NOW)
    await PodWarnings(kube).completed("shop", [crashed, ready_pod("r", last_exit=make_exit(exit_code=0))], NOW, True)
    assert kube.asked == []


async def test_events_that_cannot_be_read_leave_the_pod_as_it_is() -> None:
    kube = Warned(event(NO_SECRET))
    kube.failures["list", "Event"] = Refused(403, "events is forbidden")
    assert await obstacles(kube, STUCK) == [None]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], None),
        ([event("Back-off pulling image", reason="Failed")], None),
        ([event("old", at="2026-03-01T11:00:00Z"), event("new"), event("older", at="2026-03-01T10:00:00Z")], "new"),
        (
            [event(NO_SECRET), event("Unable to attach or mount volumes: timed out", at="2026-03-01T11:59:50Z")],
            NO_SECRET,
        ),
        ([event("Unable to attach or mount volumes: timed out")], "Unable to attach or mount volumes: timed out"),
        ([event("old"), event("now", at="", series={"lastObservedTime": "2026-03-01T11:59:30Z"})], "now"),
        ([event("old"), {"reason": "FailedMount", "message": "now", "eventTime": "2026-03-01T11:59:30Z"}], "now"),
    ],
    ids=["none", "of something else", "several", "a summary after it", "only a summary", "a series", "another writer"],
)
def test_the_newest_warning_that_names_a_cause_counts(events: list[dict[str, Any]], said: str | None) -> None:
    found = obstacle(events)
    assert (found.message if found else None) == said
