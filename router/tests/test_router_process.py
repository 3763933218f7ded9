"""The router as a process, called by the official client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import openai
import pytest
from router_under_test import chat
from scripted_engine import (
    DONE,
    LAST_CHUNK,
    STREAM_HEAD,
    EngineRequest,
    ScriptedEngine,
    Wire,
    chunk,
    response,
    scripted_engine,
    token,
)

POOLS = """
profiles:
- name: tiny
  spec:
    model: {{source: /models/tiny}}
    slice: {{profiles: [1g.10gb]}}
    memory: {{host: 2Gi}}
    workspace: {{maxTokens: 2048, maxConcurrent: 16}}
    engine: {{image: engine, version: 0.32.0}}
pools:
- name: short
  spec:
    profileRef: {{name: tiny}}
    model: tiny
    aliases: [gpt-tiny]
    requestClass: {{name: short, maxTotalTokens: 2048}}
  replicas: ["{address}"]
"""
COMPLETION = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    }
).encode()


async def engine_like(request: EngineRequest, wire: Wire) -> None:
    if json.loads(request.body).get("stream"):
        wire.write(STREAM_HEAD + chunk(token("hel")) + chunk(token("lo")) + chunk(DONE) + LAST_CHUNK)
    else:
        wire.write(response(COMPLETION))


@dataclass
class RouterProcess:
    process: asyncio.subprocess.Process
    log: list[dict[str, object]] = field(default_factory=list)

    async def follow(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(json.loads(line))

    async def line(self, message: str) -> dict[str, object]:
        async with asyncio.timeout(20):
            while True:
                found = next((one for one in self.log if one["message"] == message), None)
                if found is not None:
                    return found
                assert self.process.returncode is None, self.log
                await asyncio.sleep(0.01)

    async def port(self, name: str) -> int:
        return int(str((await self.line("serving"))[name]))


@asynccontextmanager
async def router_process(folder: Path, engine: ScriptedEngine, *arguments: str) -> AsyncIterator[RouterProcess]:
    file = folder / "pools.yaml"
    file.write_text(POOLS.format(address=engine.address))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workslice_router", "--pools", str(file), "--host", "127.0.0.1"),
        *("--port", "0", "--admin-port", "0", *arguments),
        stderr=asyncio.subprocess.PIPE,
    )
    router = RouterProcess(process)
    follower = asyncio.create_task(router.follow())
    try:
        yield router
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await follower


async def test_the_official_client_streams_and_does_not_and_sees_ordinary_errors(tmp_path: Path):
    async with scripted_engine(engine_like) as engine, router_process(tmp_path, engine) as router:
        url = f"http://127.0.0.1:{await router.port('port')}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", max_retries=0) as client:
            assert [model.id async for model in client.models.list()] == ["gpt-tiny", "tiny"]
            assert (await client.models.retrieve("tiny")).id == "tiny"
            messages = [{"role": "user", "content": "hi"}]
            for name in ("tiny", "gpt-tiny"):
                answer = await client.chat.completions.create(model=name, messages=messages)  # type: ignore[call-overload]
                assert answer.choices[0].message.content == "hello"
            parts = await client.chat.completions.create(model="tiny", messages=messages, stream=True)  # type: ignore[call-overload]
            assert "".join([part.choices[0].delta.content async for part in parts]) == "hello"
            with pytest.raises(openai.NotFoundError) as unknown:
                await client.chat.completions.create(model="nobody", messages=messages)  # type: ignore[call-overload]
            assert unknown.value.code == "model_not_found"
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(model="tiny", messages="no list", max_tokens="x")  # type: ignore[call-overload]
    assert {json.loads(request.body)["model"] for request in engine.requests} == {"tiny"}


async def test_sigterm_finishes_what_runs_and_exits_with_0(tmp_path: Path):
    release = asyncio.Event()

    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))
        await release.wait()
        wire.write(chunk(DONE) + LAST_CHUNK)

    async with scripted_engine(behaviour) as engine, router_process(tmp_path, engine) as router:
        port, admin = await router.port("port"), await router.port("adminPort")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get(f"http://127.0.0.1:{admin}/readyz")).status_code == 200
            async with client.stream("POST", "/v1/chat/completions", content=chat(stream=True)) as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                router.process.send_signal(signal.SIGTERM)
                await router.line("shutting down")
                assert (await client.get(f"http://127.0.0.1:{admin}/readyz")).status_code == 503
                straggler = await client.get("/v1/models")  # the port is still open for a while
                assert (straggler.status_code, straggler.headers["connection"]) == (200, "close")
                release.set()
                assert [line async for line in lines if line] == ["data: [DONE]"]
        async with asyncio.timeout(20):
            assert await router.process.wait() == 0


async def gather_lines(lines: AsyncIterator[str], into: list[str]) -> None:
    async for line in lines:
        into.append(line)


async def test_what_does_not_finish_in_time_is_told_that_the_router_goes(tmp_path: Path):
    async def behaviour(request: EngineRequest, wire: Wire) -> None:
        wire.write(STREAM_HEAD + chunk(token("a")))

    async with (
        scripted_engine(behaviour) as engine,
        router_process(tmp_path, engine, "--drain-timeout", "0.3") as router,
    ):
        url = f"http://127.0.0.1:{await router.port('port')}/v1/chat/completions"
        async with httpx.AsyncClient() as client, client.stream("POST", url, content=chat(stream=True)) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            router.process.send_signal(signal.SIGINT)
            rest: list[str] = []
            with pytest.raises(httpx.RemoteProtocolError):
                await gather_lines(lines, rest)
        assert "shutting_down" in "".join(rest)
        async with asyncio.timeout(20):
            assert await router.process.wait() == 0


async def test_whoever_holds_an_admin_connection_open_puts_no_traceback_into_the_log_at_the_end(tmp_path: Path):
    async with scripted_engine(engine_like) as engine, router_process(tmp_path, engine) as router:
        reader, writer = await asyncio.open_connection("127.0.0.1", await router.port("adminPort"))
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: router\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        router.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(20):
            assert await router.process.wait() == 0
        writer.close()
    assert [line for line in router.log if line["level"] == "error"] == []


async def test_the_log_has_a_line_for_a_failed_request_and_neither_key_nor_prompt(tmp_path: Path):
    async with (
        scripted_engine(engine_like) as engine,
        router_process(tmp_path, engine, "--log-level", "debug") as router,
    ):
        url = f"http://127.0.0.1:{await router.port('port')}/v1/chat/completions"
        headers = {"authorization": "Bearer a-secret-key", "x-request-id": "mine"}
        async with httpx.AsyncClient(headers=headers) as client:
            await client.post(url, content=chat("a secret prompt", model="nobody"))
            await client.post(url, content=chat("a secret prompt"))
            await client.post(url, content=b'{"a secret prompt')
        failed, went_well = await router.line("request failed"), await router.line("request")
    assert (failed["status"], failed["reason"], failed["requestId"], failed["level"]) == (
        404,
        "model_not_found",
        "mine",
        "info",
    )
    assert (went_well["status"], went_well["pool"], went_well["level"]) == (200, "default/short", "debug")
    assert "secret" not in json.dumps(router.log)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    command = [sys.executable, "-m", "workslice_router", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment, check=False)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--pools", "missing.yaml"), "missing.yaml"),
        (("--port", "70000"), "is not a port"),
        (("--model-owners", "{"), "not JSON"),
        (("--model-owners", "[]"), "JSON object"),
        (("--drain-timeout", "-1"), "above 0"),
        (("--max-body-bytes", "0"), "above 0"),
        ((), "KUBECONFIG"),
    ],
)
def test_settings_that_cannot_work_end_with_a_sentence_and_status_2(arguments: tuple[str, ...], sentence: str):
    result = (
        run(*arguments, "--admin-port", "0")
        if "--port" in arguments
        else run(*arguments, "--port", "0", "--admin-port", "0")
    )
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_port_in_use_ends_with_a_sentence_and_status_1(tmp_path: Path):
    async with scripted_engine() as engine:
        file = tmp_path / "pools.yaml"
        file.write_text(POOLS.format(address=engine.address))
        arguments = ("--pools", str(file), "--host", "127.0.0.1", "--port", str(engine.port), "--admin-port", "0")
        result = await asyncio.to_thread(run, *arguments)
    assert result.returncode == 1
    assert "in use" in result.stderr
    assert "Traceback" not in result.stderr
