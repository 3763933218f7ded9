"""Whether an answer is what the simulated engine meant to say: word by word, token by token, and of this request. Pure."""

import json
from typing import Any, Final

from chaos_callers import End, Try, body_of
from chaos_plan import Ask
from chaos_pods import MEAN_ANSWER
from engine_sim import command_line, prompts
from engine_sim.requests import ChatRequest, CompletionRequest
from engine_sim.tokens import decode

_SETTINGS: Final = command_line.read(["sim", "--sim-mean-answer", str(MEAN_ANSWER)], {})


def meant(ask: Ask) -> tuple[str, int]:
    """The whole text that an engine has for a request, and how many tokens its answer is."""
    body = body_of(ask)
    request: ChatRequest | CompletionRequest
    if ask.chat:
        request = ChatRequest.model_validate(body)
        prompt = prompts.chat_prompt(request, _SETTINGS)
    else:
        request = CompletionRequest.model_validate(body)
        prompt = prompts.text_prompts(request)[0]
    (sequence,) = prompts.sequences(request, [prompt], _SETTINGS, ids=iter([0]), seed=0, priority=0, now=0.0)
    said = range(ask.tokens if sequence.ends_at is None else min(ask.tokens, sequence.ends_at))
    text = decode(sequence.next_token(position) for position in said)
    ended = sequence.ends_at is not None and sequence.ends_at < ask.tokens
    return ("" if ask.chat else decode(prompt)) + text, len(said) + ended


def fault_of(tried: Try) -> str:
    """What is wrong with an answer of status 200; empty when nothing is, as far as it goes."""
    return _fault_of_stream(tried) if tried.ask.stream else _fault_of_whole(tried)


def _fault_of_whole(tried: Try) -> str:
    if tried.end is not End.COMPLETE:
        return ""
    try:
        document = json.loads(tried.body)
    except ValueError:
        return "is no JSON"
    text, tokens = meant(tried.ask)
    if not _is_of(document, tried):
        return f"has the id {document.get('id')}"
    choice = document["choices"][0]
    said = choice["message"]["content"] if tried.ask.chat else choice["text"]
    if said != text:
        return f"says {said[-60:]!r} instead of {text[-60:]!r}"
    counted = document["usage"]["completion_tokens"]
    return "" if counted == tokens else f"counts {counted} instead of {tokens} tokens"


def _fault_of_stream(tried: Try) -> str:
    events = [line.removeprefix("data: ") for line in tried.body.decode().split("\n\n")]
    rest = events.pop()
    if tried.end is End.LEFT:
        rest = ""
    if rest:
        return f"ends in the middle of an event: {rest!r}"
    text, tokens = meant(tried.ask)
    said, counted, finished, done, error = "", 0, "", False, False
    for event in events:
        if event.startswith(":"):
            continue
        if done or error:
            return f"goes on after its end: {event[:80]}"
        if event == "[DONE]":
            done = True
            continue
        try:
            document = json.loads(event)
        except ValueError:
            return f"has an event that is no JSON: {event[:80]!r}"
        if "error" in document:
            error = True
            continue
        if not _is_of(document, tried):
            return f"has an event of {document.get('id')}"
        for choice in document["choices"]:
            if finished:
                return f"says more after it has finished: {event[:80]}"
            said += (choice["delta"].get("content") or "") if tried.ask.chat else choice["text"]
            finished = choice["finish_reason"] or ""
        counted = (document.get("usage") or {}).get("completion_tokens", counted)
    if not text.startswith(said):
        return f"says {said[-60:]!r}, which is not how {text[-60:]!r} begins"
    if tried.end is not End.COMPLETE:
        return "ends with [DONE], but its framing does not" if done and tried.end is End.CUT else ""
    if error or not done:
        return "ends cleanly without [DONE]"
    if said != text or counted != tokens or not finished:
        return f"ends cleanly with {counted} of {tokens} tokens and finish_reason {finished!r}"
    return ""


def says_that_it_is_cut(tried: Try) -> bool:
    """Whether the last event of a stream is an error."""
    last = tried.body.decode().removesuffix("\n\n").rpartition("\n\n")[2]
    return '"error"' in last


def says_anything(tried: Try) -> bool:
    """Whether a stream has an event of an answer, which a comment or an error is not."""
    return '"choices"' in tried.body.decode()


def _is_of(document: dict[str, Any], tried: Try) -> bool:
    """Engines put the id of the request, which the router has made unique by a suffix, into all they say."""
    return str(document.get("id")).partition("-")[2].rpartition("-")[0] == tried.id
