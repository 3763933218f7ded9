"""Keeps a chosen number of requests in flight and remembers how each one ended."""

import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from openai import OpenAI, OpenAIError

from demo.question import Answer, ask
from demo.waiting import NotYet, wait_until


@dataclass(frozen=True)
class Failure:
    """A request that did not end well."""

    error: str


class Load:
    """A context in which `in_flight` requests are always running; change the number at any time.

    A client that retries hides the failures that it survives: give one without (max_retries=0) unless that is what counts.
    """

    def __init__(
        self,
        client: OpenAI,
        model: str,
        *,
        in_flight: int,
        most: int | None = None,
        max_tokens: int = 192,
        stream: bool | None = None,
    ) -> None:
        """`most` is how far `in_flight` may be raised; `stream` None streams every other answer."""
        self.in_flight = in_flight
        self.answers: list[Answer] = []
        self.failures: list[Failure] = []
        self._client, self._model, self._max_tokens, self._stream = client, model, max_tokens, stream
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(most or in_flight)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=120)

    def wait_for_more(self, count: int, *, seconds: float = 60) -> None:
        """Wait until that many more answers are here."""
        goal = len(self.answers) + count

        def more() -> None:
            if len(self.answers) < goal:
                raise NotYet(f"{goal - len(self.answers)} of {count} are missing; failures: {self.failures}")

        wait_until(f"{count} more answers", more, seconds=seconds, every=0.2)

    def _work(self, number: int) -> None:
        count = 0
        while not self._stop.is_set():
            if number >= self.in_flight:
                self._stop.wait(0.2)
                continue
            count += 1
            question = f"Worker {number} asks question {count}: what comes next?"
            stream = count % 2 == 0 if self._stream is None else self._stream
            try:
                answer = ask(self._client, self._model, question, stream=stream, max_tokens=self._max_tokens)
                self.answers.append(answer)
                if not answer.finish_reason:
                    self.failures.append(Failure(f"an answer of pool {answer.pool} ended without a finish reason"))
            except OpenAIError as error:
                self.failures.append(Failure(f"{type(error).__name__}: {error}"))
                self._stop.wait(0.5)
