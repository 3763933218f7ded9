"""Requests to an engine, good and bad ones, and how to send them."""

from typing import Any, NamedTuple

import httpx

from conforming_engines import CONTEXT
from engine_processes import EngineProcess
from installed import MODEL

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = [{"role": "user", "content": "What comes next?"}]


class Case(NamedTuple):
    """One request."""

    what: str
    path: str
    body: Any = None
    method: str = "POST"
    headers: dict[str, str] = {}


def chat(what: str, **fields: Any) -> Case:
    return Case(what, CHAT, {"messages": QUESTION, "max_tokens": 4, "ignore_eos": True, **fields})


def text(what: str, **fields: Any) -> Case:
    return Case(what, TEXT, {"prompt": "What comes next?", "max_tokens": 4, "ignore_eos": True, **fields})


JSON = {"content-type": "application/json"}
BODY = b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 2}'
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    *QUESTION,
    {"role": "assistant", "content": None},
    *QUESTION,
]
ANSWERED = [
    Case("health", "/health", method="GET"),
    Case("ping", "/ping", method="GET"),
    Case("ping by POST", "/ping"),
    Case("version", "/version", method="GET"),
    Case("load", "/load", method="GET"),
    Case("models", "/v1/models", method="GET"),
    Case("tokenize", "/tokenize", {"prompt": "What comes next?"}),
    Case("tokenize a chat", "/tokenize", {"messages": QUESTION, "return_token_strs": True}),
    chat("chat"),
    chat("chat without a model"),
    chat("chat with a model", model=MODEL),
    chat("several answers", n=2, temperature=1),
    chat("max_completion_tokens", max_tokens=None, max_completion_tokens=3),
    chat("unknown field", something=1),
    chat("priority", priority=-3),
    chat("cache_salt", cache_salt="a-b_c"),
    chat("text parts", messages=[{"role": "user", "content": [{"type": "text", "text": "What comes next?"}]}]),
    text("text"),
    text("several prompts", prompt=["One", "two"]),
    text("tokens as prompt", prompt=[65, 66, 67]),
    text("echo", echo=True),
    text("nothing but the echo", echo=True, max_tokens=0),
    chat("a message without content", messages=[{"role": "user"}]),
    text("max_tokens null", max_tokens=None),
    text("several prompts of tokens", prompt=[[65, 66], [67]]),
    text("stop strings", stop=["never said", "nor this"]),
    chat("a conversation", messages=CONVERSATION),
    chat("max_tokens as a string", max_tokens="3"),
    chat("a priority in the header")._replace(headers={"x-vllm-priority": "-3"}),
    chat("load in JSON")._replace(headers={"endpoint-load-metrics-format": "json"}),
    chat("load in text")._replace(headers={"endpoint-load-metrics-format": "text"}),
    chat("another origin")._replace(headers={"origin": "http://elsewhere"}),
    Case("charset", CHAT, BODY, headers={"content-type": "Application/JSON; charset=utf-8"}),
    Case("detokenize", "/detokenize", {"tokens": [65, 66]}),
]
REFUSED = [
    Case("unknown path", "/nothing", method="GET"),
    Case("embeddings of a model that generates", "/v1/embeddings", {"input": "x"}),
    Case("one model", f"/v1/models/{MODEL}", method="GET"),
    Case("wrong method", CHAT, method="GET"),
    Case("HEAD", "/health", method="HEAD"),
    chat("unknown model", model="other"),
    text("unknown model of a text", model="other"),
    Case("unknown model to tokenize", "/tokenize", {"prompt": "x", "model": "other"}),
    Case("broken JSON", CHAT, b'{"messages": [', headers=JSON),
    Case("bad JSON", CHAT, b"{bad", headers=JSON),
    Case("no JSON", CHAT, b"x=1", headers={"content-type": "text/plain"}),
    Case("no UTF-8", CHAT, b'"\xff\xfe"', headers=JSON),
    Case("empty body", CHAT, b"", headers=JSON),
    Case("a list", CHAT, []),
    Case("no messages", CHAT, {"model": MODEL}),
    chat("messages of a wrong type", messages="x"),
    chat("max_tokens of a wrong type", max_tokens="many"),
    chat("priority of a wrong type", priority="high"),
    chat("huge priority", priority=2**70),
    chat("temperature above 2", temperature=9),
    chat("temperature below 0", temperature=-1),
    chat("top_p of 0", top_p=0),
    chat("no tokens", max_tokens=0),
    chat("fewer than no tokens", max_tokens=-1),
    chat("more tokens than the context", max_tokens=CONTEXT + 1),
    chat("more completion tokens than the context", max_tokens=None, max_completion_tokens=CONTEXT + 1),
    chat("n of 0", n=0),
    chat("several greedy answers", n=2, temperature=0),
    chat("stream options without a stream", stream_options={"include_usage": True}),
    chat("empty cache_salt", cache_salt=""),
    chat("cache_salt with a slash", cache_salt="a/b"),
    chat("long cache_salt", cache_salt="a" * 129),
    chat("tools without a parser", tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}]),
    chat("no tools", tools=[]),
    chat("an image", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]),
    chat("an empty conversation", messages=[]),
    chat("an empty stop string", stop=""),
    chat("five stop strings", stop=["a"] * 5),
    chat("too many answers", n=20_000),
    chat("unknown tool choice", tool_choice="x", tools=[{"type": "function", "function": {"name": "f"}}]),
    chat("a tool choice without tools", tool_choice="auto"),
    Case("not a number", CHAT, BODY.replace(b"2}", b'2, "temperature": NaN}'), headers=JSON),
    Case("garbage behind the body", CHAT, BODY + b" x", headers=JSON),
    Case("no content type", CHAT, BODY),
    chat("long prompt", messages=[{"role": "user", "content": "word " * 4 * CONTEXT}]),
    chat("long prompt as a stream", messages=[{"role": "user", "content": "word " * 4 * CONTEXT}], stream=True),
    text("empty prompt", prompt=""),
    text("no prompt", prompt=None),
    text("no prompts", prompt=[]),
    text("a suffix", suffix="x"),
    text("logit_bias of a wrong type", logit_bias="x"),
    text("n null", n=None),
    text("an empty prompt among others", prompt=["a", ""]),
    text("prompt of a wrong type", prompt={"a": 1}),
    Case("OPTIONS", CHAT, method="OPTIONS"),
    Case("DELETE", CHAT, method="DELETE"),
    text("negative token", prompt=[-1]),
    text("long tokens", prompt=[65] * (CONTEXT + 5)),
    text("min_tokens above max_tokens", min_tokens=9),
]


def ask(engine: EngineProcess, case: Case, *, seconds: float = 60) -> httpx.Response:
    content = case.body if isinstance(case.body, bytes) else None
    document = None if isinstance(case.body, bytes) else case.body
    with engine.client(seconds) as client:
        return client.request(case.method, case.path, content=content, json=document, headers=case.headers)


def told_headers(response: httpx.Response) -> dict[str, str]:
    """The headers, with the values of those that do not depend on what is said or when."""
    changing = ("date", "content-length", "x-request-id")
    return {name: "" if name in changing else value for name, value in response.headers.items()}
