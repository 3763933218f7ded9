import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fake_kube import FakeKube
from pool_facts import make_exit, make_pod, ready_pod

from workslice_operator import engine_logs
from workslice_operator.engine_logs import READS_AT_ONCE, EngineLogs
from workslice_operator.kube_api import Refused
from workslice_operator.observed import PodFacts

KILLED = (Path(__file__).parent / "engine_logs" / "engine_core_killed.txt").read_text()
GONE = make_pod("a", last_exit=make_exit("", reason="Completed", exit_code=0))


def words(pods: tuple[PodFacts, ...]) -> list[str]:
    return [pod.last_exit.message if pod.last_exit else "" for pod in pods]


async def test_an_engine_that_ended_with_exit_code_0_gets_its_last_words_from_its_log_once() -> None:
    kube = FakeKube()
    kube.logs["a", False] = KILLED
    logs = EngineLogs(kube)
    first = await logs.completed("shop", [GONE])
    assert "engine core exited unexpectedly" in words(first)[0]
    assert await logs.completed("shop", [GONE]) == first
    assert kube.reads == 1


async def test_the_next_end_of_the_same_engine_is_read_anew() -> None:
    kube = FakeKube()
    kube.logs |= {("a", False): KILLED, ("a", True): "ValueError: another"}
    logs = EngineLogs(kube)
    await logs.completed("shop", [GONE])
    later = make_exit("", reason="Completed", exit_code=0, lived=3)
    later = replace(later, finished_at=None, replaced=True)
    assert words(await logs.completed("shop", [make_pod("a", last_exit=later)])) == ["ValueError: another"]


async def test_engines_that_are_well_or_have_said_why_cost_no_read() -> None:
    kube = FakeKube()
    pods = [
        ready_pod("a", last_exit=GONE.last_exit),
        make_pod("b", last_exit=make_exit("x: error: bad")),
        make_pod("c"),
    ]
    assert await EngineLogs(kube).completed("shop", pods) == tuple(pods)
    assert kube.reads == 0


async def test_an_engine_whose_successor_was_asked_by_mistake_is_explained_once_its_replacement_is_seen() -> None:
    kube = FakeKube()
    kube.logs |= {("a", False): "", ("a", True): KILLED}
    logs = EngineLogs(kube)
    assert await logs.completed("shop", [GONE]) == (GONE,)
    assert GONE.last_exit is not None
    replaced = replace(GONE, last_exit=replace(GONE.last_exit, replaced=True))
    for _ in range(2):
        assert "engine core exited unexpectedly" in words(await logs.completed("shop", [replaced]))[0]
    assert kube.reads == 2


async def test_what_was_read_before_the_replacement_stays_when_the_log_before_is_gone() -> None:
    kube = FakeKube()
    kube.logs["a", False] = KILLED
    logs = EngineLogs(kube)
    first = await logs.completed("shop", [GONE])
    kube.failures["log", "Pod"] = Refused(400, "previous terminated container not found")
    assert GONE.last_exit is not None
    replaced = replace(GONE, last_exit=replace(GONE.last_exit, replaced=True))
    assert words(await logs.completed("shop", [replaced])) == words(first)


async def test_a_log_that_cannot_be_read_leaves_the_pod_as_it_is_and_is_asked_for_again_but_not_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube = FakeKube()
    kube.failures["log", "Pod"] = Refused(403, "pods/log is forbidden")
    logs = EngineLogs(kube)
    assert await logs.completed("shop", [GONE]) == (GONE,)
    kube.failures.clear()
    kube.logs["a", False] = KILLED
    assert await logs.completed("shop", [GONE]) == (GONE,)
    monkeypatch.setattr(engine_logs, "RETRY_SECONDS", 0.0)
    assert "engine core exited unexpectedly" in words(await logs.completed("shop", [GONE]))[0]


async def test_a_kubelet_that_does_not_answer_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(FakeKube):
        async def pod_log(self, namespace: str, pod: str, container: str, *, previous: bool, lines: int) -> str:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    monkeypatch.setattr(engine_logs, "READ_SECONDS", 0.01)
    assert await EngineLogs(Hanging()).completed("shop", [GONE]) == (GONE,)


async def test_many_engines_that_ended_at_once_are_read_a_few_at_a_time() -> None:
    kube = FakeKube()
    pods = [make_pod(f"p{n}", last_exit=GONE.last_exit) for n in range(READS_AT_ONCE + 2)]
    logs = EngineLogs(kube)
    await logs.completed("shop", pods)
    assert kube.reads == READS_AT_ONCE
    await logs.completed("shop", pods)
    assert kube.reads == READS_AT_ONCE + 2


async def test_a_long_log_is_searched_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    searched_by: list[threading.Thread] = []

    def telling_lines(log: str) -> str:
        searched_by.append(threading.current_thread())
        return log

    monkeypatch.setattr(engine_logs, "telling_lines", telling_lines)
    kube = FakeKube()
    kube.logs["a", False] = "ValueError: x"
    assert words(await EngineLogs(kube).completed("shop", [GONE])) == ["ValueError: x"]
    assert searched_by != [threading.current_thread()]
