"""Long streamed answers, as an openai client sees them, that run while something is taken away."""

from concurrent.futures import Future, ThreadPoolExecutor

from demo.question import Answer, ask
from openai import OpenAI


class LongStreams:
    """Starts `count` answers of exactly `tokens` tokens at once, each in a thread."""

    def __init__(self, client: OpenAI, model: str, *, count: int, tokens: int) -> None:
        self._client, self._model, self._tokens = client, model, tokens
        self._workers = ThreadPoolExecutor(count)
        self._results: list[Future[Answer]] = [self._workers.submit(self._one, number) for number in range(count)]

    def _one(self, number: int) -> Answer:
        options = {"extra_body": {"ignore_eos": True}}
        return ask(self._client, self._model, f"Count {number}", stream=True, max_tokens=self._tokens, **options)

    def running(self) -> int:
        """How many have not ended."""
        return sum(not result.done() for result in self._results)

    def answers(self, seconds: float) -> list[Answer]:
        """All answers when they have ended. Raises openai's error when one failed, TimeoutError after that many seconds."""
        return [result.result(timeout=seconds) for result in self._results]

    def complete(self, answers: list[Answer]) -> bool:
        """Whether each of the answers has all its tokens."""
        return [(one.completion_tokens, one.finish_reason) for one in answers] == [(self._tokens, "length")] * len(
            self._results
        )
