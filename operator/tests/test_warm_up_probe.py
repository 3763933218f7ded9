"""The startup probe as shells run it, against an engine of a few lines."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from workslice_api.engine_spec import Warmup, WarmupPrefix
from workslice_operator import warm_up_program
from workslice_operator.render.warm_up import warm_up_probe

SHELLS = [words for words in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(words[0])]
TRICKY = "You are “Ada”.\n\tCost: $5, $$HOME, $(HOME), `id`, 'quotes' \\ and \x00 nothing else"
WARMUP = Warmup(prefixes=[WarmupPrefix(text=TRICKY), WarmupPrefix(text="Once upon a time", kind="Prompt")])


class Engine(ThreadingHTTPServer):
    """Answers every request alike and remembers it."""

    def __init__(self, status: int = 200, answer: str = "{}") -> None:
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=False)
        self.server_bind()
        self.status, self.answer = status, answer
        self.asked: list[tuple[str, Any]] = []

    @contextmanager
    def serving(self) -> Iterator[None]:
        self.server_activate()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield
        finally:
            self.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, json.loads(body)))
        if self.server.status:
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(self.server.answer.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as one:
        yield one


def expanded(word: str) -> str:
    """What the kubelet makes of a word of a probe's command."""
    values = {"$$": "$", "$(HOME)": "/expanded"}
    return re.sub(r"\$\$|\$\(\w+\)", lambda found: values.get(found[0], found[0]), word)


def command(engine: Engine, shell: list[str], seconds: float = 60) -> list[str]:
    """The probe's command, for a container that may be so many seconds older than it is."""
    probe = warm_up_probe(WARMUP, round(warm_up_program.container_age()) + seconds, engine.server_address[1])
    sh, *words = probe["exec"]["command"]
    assert sh == "/bin/sh"
    return [*shell, *map(expanded, words)]


def run(words: list[str], **environment: str) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ended = subprocess.run(
        words, env={"PATH": path} | environment, capture_output=True, text=True, check=False, timeout=60
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_first_request_and_each_prefix_are_sent_as_they_are(engine: Engine, shell: list[str]) -> None:
    with engine.serving():
        assert run(command(engine, shell)) == (0, "")
    messages = [{"role": "system", "content": TRICKY}, {"role": "user", "content": "Hello"}]
    assert engine.asked == [
        ("/v1/completions", {"prompt": "Hello", "max_tokens": 2, "temperature": 0}),
        ("/v1/chat/completions", {"messages": messages, "max_tokens": 1}),
        ("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 1}),
    ]


def test_a_refusal_is_told_in_the_words_of_the_engine_and_ends_the_warm_up(engine: Engine) -> None:
    engine.status, engine.answer = 400, json.dumps({"error": {"message": "This model's\nmaximum context"}})
    with engine.serving():
        said = run(command(engine, SHELLS[0]))
    assert said == (1, "warm-up: /v1/completions answered 400: This model's maximum context\n")
    assert len(engine.asked) == 1


def test_an_answer_that_is_no_openai_error_is_told_as_it_is(engine: Engine) -> None:
    engine.status, engine.answer = 404, '{"detail":"Not Found"}'
    with engine.serving():
        assert run(command(engine, SHELLS[0])) == (
            1,
            'warm-up: /v1/completions answered 404: {"detail":"Not Found"}\n',
        )


def test_a_connection_that_breaks_is_told(engine: Engine) -> None:
    engine.status = 0
    with engine.serving():
        status, said = run(command(engine, SHELLS[0]))
    assert status == 1
    assert said.startswith("warm-up: /v1/completions got no answer: RemoteDisconnected(")


@pytest.mark.parametrize("listens", [False, True], ids=["that never listens", "that never answers"])
def test_an_engine_is_given_up_when_its_time_is_over(engine: Engine, listens: bool) -> None:
    if listens:
        engine.server_activate()  # the kernel takes the connection, and nobody reads it
    status, said = run(command(engine, SHELLS[0], seconds=2))
    assert (status, "was not answered within engine.startupTimeout" in said) == (1, True)


def test_the_warm_up_begins_when_the_engine_listens(engine: Engine) -> None:
    probe = subprocess.Popen(command(engine, SHELLS[0]), env={"PATH": str(Path(sys.executable).parent) + ":/usr/bin"})
    with pytest.raises(subprocess.TimeoutExpired):
        probe.wait(0.5)
    with engine.serving():
        assert probe.wait(30) == 0
    assert len(engine.asked) == 3


def test_an_image_without_python_says_so(engine: Engine, tmp_path: Path) -> None:
    shell = [str(shutil.which(SHELLS[0][0])), *SHELLS[0][1:]]
    status, said = run(command(engine, shell), PATH=str(tmp_path))
    assert (status, said) == (1, "warm-up: the engine's image has no python3\n")


def test_the_kubelet_waits_for_as_long_as_the_engine_may_take() -> None:
    probe = warm_up_probe(Warmup(), 90.5)
    assert probe["timeoutSeconds"] >= 90.5 + 1
    assert probe["failureThreshold"] * probe["periodSeconds"] <= 30, "a warm-up that failed is not tried for long"


def test_a_word_of_the_command_is_never_longer_than_the_kernel_takes() -> None:
    texts = [WarmupPrefix(text="\U0001f600" * 8192)] * 4
    assert max(map(len, warm_up_probe(Warmup(prefixes=texts), 60)["exec"]["command"])) < 128 * 1024
