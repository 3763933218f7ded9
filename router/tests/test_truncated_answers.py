"""Answers that a pool's context cuts short are counted, and teach the router where the next one belongs."""

import json

import pytest
from router_under_test import RunningRouter, chat, pool, running_router
from scripted_engine import DONE, answers, response, scripted_engine, stream, token

from workslice_router.metrics import TRUNCATED


def whole(reason: str, completion: int, text: str = "hello") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    usage = {"prompt_tokens": 12, "completion_tokens": completion, "total_tokens": 12 + completion}
    return response(json.dumps({"choices": [choice], "usage": usage}).encode())


def last_token(reason: str) -> bytes:
    event = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": reason}]}
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def free(**fields: bool) -> bytes:
    return json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def truncated(router: RunningRouter) -> int:
    text = "".join(router.data_path.metrics.render(router.table, 0.0))
    values = [line.split()[-1] for line in text.splitlines() if line.startswith(TRUNCATED.name + "{")]
    return int(values[0]) if values else 0


@pytest.mark.parametrize(
    ("reason", "completion", "body", "expected"),
    [
        ("length", 30, free(), 1),
        ("stop", 30, free(), 0),
        ("length", 30, chat(max_tokens=30), 0),
        ("length", 29, chat(max_tokens=30), 1),
        ("stop", 29, chat(max_tokens=30), 0),
        ("length", 29, chat(max_tokens=30, n=2), 0),
    ],
)
async def test_an_answer_counts_that_is_shorter_than_its_request_allowed(
    reason: str, completion: int, body: bytes, expected: int
):
    async with scripted_engine(answers(whole(reason, completion))) as engine, running_router(engine) as router:
        assert (await router.ask(body)).status == 200
        assert truncated(router) == expected


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((token("a"), last_token("length"), DONE), 1),
        ((token("a"), last_token("length") + DONE), 1),
        ((token("a") + last_token("length") + DONE,), 1),
        ((token("a"), last_token("length"), b'data: {"choices":[],"usage":{"prompt_tokens":3}}\n\n', DONE), 1),
        ((token("a"), last_token("length")[:20], last_token("length")[20:], DONE), 1),
        ((token("a"), last_token("stop"), DONE), 0),
        ((token('"finish_reason":"length"'), last_token("stop"), DONE), 0),
    ],
)
async def test_a_stream_counts_too_even_without_usage(events: tuple[bytes, ...], expected: int):
    async with scripted_engine(answers(stream(*events))) as engine, running_router(engine) as router:
        assert (await router.ask(free(stream=True))).complete
        assert truncated(router) == expected


async def test_after_answers_were_cut_where_there_was_little_room_a_request_counts_as_longer():
    async with scripted_engine(answers(whole("length", 1500))) as engine, running_router(engine) as router:
        router.table.put_pool(pool("long", class_tokens=8192, context_tokens=8192))
        router.table.commit()
        await router.ask(free())
        assert router.data_path.estimator.answers.longest("tiny") >= 3000


async def test_an_answer_that_even_the_largest_context_cuts_says_nothing_about_the_others():
    async with scripted_engine(answers(whole("length", 1500))) as engine, running_router(engine) as router:
        await router.ask(free())
        assert router.data_path.estimator.answers.longest("tiny") == 512
        assert router.data_path.estimator.answers.expected("tiny", "short") > 512, "but it was as long as it was"


async def test_an_answer_whose_request_lets_no_answer_end_says_nothing_about_the_others():
    async with scripted_engine(answers(whole("length", 1500))) as engine, running_router(engine) as router:
        router.table.put_pool(pool("long", class_tokens=8192, context_tokens=8192))
        router.table.commit()
        await router.ask(free(ignore_eos=True))
        assert router.data_path.estimator.answers.longest("tiny") == 512


async def test_a_stream_without_usage_teaches_by_its_events():
    events = stream(*[token("a")] * 300, last_token("stop"), DONE)
    async with scripted_engine(answers(events)) as engine, running_router(engine) as router:
        for _ in range(100):
            await router.ask(free(stream=True))
        assert 250 <= router.data_path.estimator.answers.longest("tiny") <= 400


async def test_an_embedding_teaches_nothing_about_answers():
    usage = response(b'{"data":[],"usage":{"prompt_tokens":12,"total_tokens":12}}')
    async with scripted_engine(answers(usage)) as engine, running_router(engine) as router:
        await router.ask(b'{"model":"tiny","input":"a"}', path="/v1/embeddings")
        assert router.data_path.estimator.answers.expected("tiny", "short") == 512
