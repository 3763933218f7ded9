import asyncio
import json
import logging

import httpx

from workslice_operator.health_server import health_server
from workslice_operator.json_log import JsonFormatter


async def test_health_and_readiness_say_what_is_wrong() -> None:
    wrong: dict[str, str | None] = {"health": None, "ready": "no CRDs yet"}
    async with (
        health_server(0, lambda: wrong["health"], lambda: wrong["ready"], lambda: b"metric 1\n") as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
    ):
        assert (await http.get("/healthz")).status_code == 200
        ready = await http.get("/readyz?verbose")
        assert (ready.status_code, ready.text) == (503, "no CRDs yet\n")
        wrong |= {"health": "a worker has died", "ready": None}
        assert (await http.get("/healthz")).status_code == 503
        assert (await http.get("/readyz")).status_code == 200
        metrics = await http.get("/metrics")
        assert metrics.text == "metric 1\n"
        assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert (await http.get("/")).status_code == 404
        assert (await http.post("/metrics")).status_code == 405


async def test_garbage_is_answered_and_harms_nothing() -> None:
    async with health_server(0, lambda: None, lambda: None, lambda: b"") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\r\n\r\n")
        assert b"400 Bad Request" in await asyncio.wait_for(reader.read(), timeout=5)
        writer.close()
        _, gone = await asyncio.open_connection("127.0.0.1", port)
        gone.close()
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200


def test_a_log_line_is_one_json_object_with_its_key() -> None:
    record = logging.makeLogRecord(
        {"name": "workslice_operator", "levelname": "INFO", "msg": "two\nlines %s", "args": ("x",), "key": "shop/chat"}
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["message"], entry["key"], entry["level"]) == ("two\nlines x", "shop/chat", "info")
