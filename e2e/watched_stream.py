"""A streamed answer that a test watches while something goes wrong: where it runs, how far it came, and how it ended.

It is whole only with every token that it asked for: the engine names the tokens of each event (`return_token_ids`), and they are counted
here, where they arrive. A usage document or an end without an error proves nothing about what was lost on the way.
"""

import json
import threading
import time

import httpx
from demo.waiting import NotYet, wait_until

DONE = "[DONE]"
PATIENCE_SECONDS = 300.0
_LATE_REPLICA = ": x-workslice-replica: "


class WatchedStream:
    """Starts at once, in a thread; `url` is the endpoint with /v1 (or one router's)."""

    def __init__(self, url: str, model: str, tokens: int) -> None:
        self.replica = ""
        self.events: list[str] = []
        self.tokens = 0
        """That have arrived."""
        self.asked = tokens
        self.cut: httpx.HTTPError | None = None
        self.ended_at = 0.0
        """On time.monotonic's clock; 0 while it runs."""
        body = {"model": model, "prompt": "Count", "max_tokens": tokens, "ignore_eos": True, "return_token_ids": True}
        self._thread = threading.Thread(target=self._read, args=(url, body | {"stream": True}), daemon=True)
        self._thread.start()

    def _read(self, url: str, body: dict[str, object]) -> None:
        try:
            with httpx.stream(
                "POST", f"{url}/completions", json=body, timeout=PATIENCE_SECONDS, trust_env=False
            ) as answer:
                answer.raise_for_status()
                self.replica = answer.headers.get("x-workslice-replica", "")
                for line in answer.iter_lines():
                    if line.startswith(_LATE_REPLICA):  # comments went out before it was known
                        self.replica = line.removeprefix(_LATE_REPLICA)
                    elif line.startswith("data: "):
                        self._take(line.removeprefix("data: "))
        except httpx.HTTPError as error:
            self.cut = error
        self.ended_at = time.monotonic()

    def _take(self, event: str) -> None:
        self.events.append(event)
        if event != DONE:
            self.tokens += sum(len(choice["token_ids"]) for choice in json.loads(event).get("choices", ()))

    def wait_for_start(self) -> "WatchedStream":
        """Return once the first token is here."""

        def started() -> None:
            if not self.events:
                raise NotYet(f"no event yet, {self.cut or 'no error'}")

        wait_until("the stream to start", started, seconds=60, every=0.05)
        return self

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def ran_at(self, moment: float) -> bool:
        """Whether it had not ended at this moment of time.monotonic's clock."""
        return not self.ended_at or self.ended_at > moment

    def ending(self) -> str:
        """Wait for its end and say how it was: `done`, with all its tokens, `error` (an error event and no [DONE]), `cut`, or what else
        it was.
        """
        self._thread.join(PATIENCE_SECONDS)
        if self.running:
            return "it hangs"
        last = self.events[-1] if self.events else ""
        failed = any("error" in json.loads(event) for event in self.events if event != DONE)
        if last == DONE:
            if failed:
                return "an error, then [DONE]"
            return "done" if self.tokens == self.asked else f"[DONE] after {self.tokens} of {self.asked} tokens"
        if failed:
            return "error"
        return "cut" if self.cut else f"a clean end without [DONE] after {last[:80]!r}"
