"""A watched stream knows a whole answer from one that only ends like one. No cluster is needed."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from watched_stream import DONE, WatchedStream

ASKED = 5
ERROR = json.dumps({"error": {"message": "the engine is gone"}})


def tokens(*numbers: int) -> str:
    return json.dumps({"choices": [{"index": 0, "text": "", "token_ids": list(numbers)}]})


@contextmanager
def answering(*events: str) -> Iterator[str]:
    """The endpoint of a server that answers every request with these events and then closes the connection."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write("".join(f"data: {event}\n\n" for event in events).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


@pytest.mark.parametrize(
    ("events", "ending"),
    [
        ((tokens(1, 2, 3), tokens(4, 5), DONE), "done"),
        ((tokens(1, 2, 3), tokens(4), DONE), "[DONE] after 4 of 5 tokens"),
        ((tokens(1, 2, 3), tokens(4, 5, 6), DONE), "[DONE] after 6 of 5 tokens"),
        ((DONE,), "[DONE] after 0 of 5 tokens"),
        ((tokens(1), ERROR), "error"),
        ((tokens(1), ERROR, DONE), "an error, then [DONE]"),
        ((ERROR,), "error"),
    ],
)
def test_an_answer_is_done_with_all_its_tokens_only(events: tuple[str, ...], ending: str) -> None:
    with answering(*events) as url:
        assert WatchedStream(url, "any", ASKED).ending() == ending


def test_a_clean_end_without_its_last_word_is_told() -> None:
    with answering(tokens(1, 2, 3, 4, 5)) as url:
        assert WatchedStream(url, "any", ASKED).ending().startswith("a clean end without [DONE]")
