"""The judge of storms sees what it is there to see: each broken promise, and none where a fault excuses it. No process is started."""

import json
from dataclasses import replace
from typing import Any

import pytest

from chaos_answers import meant
from chaos_callers import End, Try
from chaos_plan import Ask, Fault, RouterFault, plan
from chaos_pods import Arrival
from chaos_storm import Farewell, Record, Trouble
from chaos_verdict import broken_promises
from engine_sim.errors import CORE_DIED

ASK = replace(
    plan(0, 1.0).asks[0],
    chat=True,
    stream=True,
    tokens=3,
    ends_by_itself=False,
    leaves_after=None,
    leaves_at_event=None,
)
WORDS = meant(ASK)[0].split()


def event(text: str = "", reason: str | None = None, **fields: Any) -> str:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]
    return "data: " + json.dumps({"id": "chatcmpl-one-7", "choices": choices} | fields) + "\n\n"


USAGE = event(choices=[], usage={"completion_tokens": 3})
DONE = "data: [DONE]\n\n"
ERROR = 'data: {"error": {"message": "it failed"}}\n\n'
WHOLE = "".join([event(f" {WORDS[0]}"), event(f" {WORDS[1]}"), event(f" {WORDS[2]}", "length"), USAGE, DONE])


def tried(body: str = WHOLE, *, ask: Ask = ASK, end: End = End.COMPLETE, status: int = 200, **headers: str) -> Try:
    headers = {"x-workslice-replica": "short-0", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return Try(ask, "one", "router-0", 10.0, False, 12.0, end, status, headers, bytearray(body.encode()))


def judged(one: Try, *troubles: Trouble, arrivals: tuple[Arrival, ...] = (), **line: Any) -> str:
    logs = [{"level": "info", "message": "request", "requestId": "one", "retries": 0, **line}]
    return "\n".join(broken_promises(Record(troubles=list(troubles)), [one], arrivals, logs))


def trouble(fault: Fault | RouterFault, victim: str = "short-0") -> Trouble:
    return Trouble(fault, victim, 9.0, 11.0)


def test_a_whole_answer_is_fine() -> None:
    assert judged(tried()) == ""


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (WHOLE.removesuffix(DONE), "ends cleanly without [DONE]"),
        (WHOLE.replace(DONE, ERROR), "ends cleanly without [DONE]"),
        (event(f" {WORDS[0]}") + DONE, "ends cleanly with 0 of 3 tokens"),
        (event(f" {WORDS[0]}") + WHOLE, "not how"),
        (event(" foreign") + WHOLE, "not how"),
        (WHOLE.replace("one-7", "two-7"), "has an event of chatcmpl-two-7"),
        (WHOLE + WHOLE, "goes on after its end"),
        (WHOLE[:-9], "in the middle of an event"),
    ],
)
def test_a_clean_end_of_anything_else_is_not(body: str, complaint: str) -> None:
    assert complaint in judged(tried(body))


def test_a_cut_needs_a_fault_of_its_replica_and_a_last_word() -> None:
    cut = tried(event(f" {WORDS[0]}") + ERROR, end=End.CUT)
    assert judged(cut, trouble(Fault.KILL)) == ""
    assert "nothing happened to its replica" in judged(cut)
    assert "nothing happened to its replica" in judged(cut, trouble(Fault.KILL, "short-1"))
    assert "nothing happened to its replica" in judged(cut, trouble(Fault.CRUMBS))
    assert "without a word" in judged(tried(event(f" {WORDS[0]}"), end=End.CUT), trouble(Fault.KILL))


def test_an_error_before_the_first_byte_is_a_lost_request_unless_all_retries_met_faults() -> None:
    lost = tried('{"error": {}}', status=502)
    assert "lost before its first byte" in judged(lost, trouble(Fault.KILL))
    assert judged(lost, trouble(Fault.KILL), retries=2) == ""
    assert "lost before its first byte" in judged(lost, retries=2)
    assert judged(lost, trouble(Fault.KILL), detail="it was reset; not tried again, since …") == ""
    assert judged(tried(f'{{"error": "{CORE_DIED}"}}', status=500), trouble(Fault.CORE_DIES)) == ""
    assert "lost before its first byte" in judged(tried(status=500), trouble(Fault.CORE_DIES))
    assert judged(tried(status=429)) == ""
    assert "refused" in judged(tried(status=404))


def test_a_comment_before_an_error_makes_no_answer_of_it() -> None:
    lost = tried(": waiting\n\n" + ERROR, end=End.CUT)
    assert "lost before its first byte" in judged(lost, trouble(Fault.KILL))
    assert judged(lost, trouble(Fault.KILL), retries=2) == ""
    assert judged(tried(": waiting\n\n" + ERROR.replace("it failed", "queue_timeout"), end=End.CUT)) == ""


def test_only_a_router_that_was_ended_may_leave_a_client_without_an_answer() -> None:
    silent = tried(end=End.UNANSWERED, status=0)
    assert "without an answer" in judged(silent)
    assert "without an answer" in judged(silent, trouble(RouterFault.TERMINATE, "router-0"))
    assert judged(silent, trouble(RouterFault.KILL, "router-0")) == ""
    assert "takes no connection" in judged(tried(end=End.REFUSED, status=0))
    assert "hangs" in judged(tried(end=End.HANGS, status=0), trouble(RouterFault.KILL, "router-0"))


def test_an_engine_must_hear_within_a_second_that_the_client_has_gone() -> None:
    left = tried(event(f" {WORDS[0]}"), end=End.LEFT)
    assert judged(left, arrivals=(Arrival("one-7", "short-0", 10.1, 12.9),)) == ""
    assert "1.50 s after" in judged(left, arrivals=(Arrival("one-7", "short-0", 10.1, 13.5),))
    assert judged(left, trouble(Fault.STOP), arrivals=(Arrival("one-7", "short-0", 10.1, 13.5),)) == ""


def test_nothing_may_come_to_a_replica_after_all_routers_knew_that_it_goes() -> None:
    record = Record(farewells=[Farewell("short-0", 10.0)])
    late, early = Arrival("one-7", "short-0", 11.0, 11.5), Arrival("one-7", "short-0", 9.9, 11.5)
    assert broken_promises(record, [], [early], []) == []
    assert "after all routers knew" in broken_promises(record, [], [late], [])[0]


def test_a_fault_of_the_router_itself_is_seen_in_its_log() -> None:
    assert "a router logged" in judged(tried(), exception="Traceback")
    assert "a router logged" in judged(tried(), level="error")
