"""What other routers do, with perfect knowledge of what they look at: each replica's own requests, at once."""

from collections.abc import Callable, Sequence

from simulation import Send
from workload import Request


class Baseline:
    """Sends each request to the first of its replicas that has the least of something."""

    def __init__(self, replicas: Callable[[Request], Sequence[int]], load: str) -> None:
        self._replicas = replicas
        self._load = load
        self._requests: list[int] = []
        self._prompts: list[int] = []
        self._turns: list[int] = []

    def start(self, clock: Callable[[], float], send: Send) -> None:
        self._send = send
        self._requests, self._prompts, self._turns = [0] * 64, [0] * 64, [0] * 64

    def arrived(self, request: Request) -> None:
        rank = {
            "turns": lambda one: (self._turns[one],),
            "requests": lambda one: (self._requests[one], self._turns[one]),
            "prefill": lambda one: (self._prompts[one], self._requests[one], self._turns[one]),
        }[self._load]
        chosen = min(self._replicas(request), key=rank)
        self._turns[chosen] += 1
        self._requests[chosen] += 1
        self._prompts[chosen] += request.prompt
        self._send(request, chosen, 0)

    def first_token(self, request: Request) -> None:
        self._prompts[request.replica] -= request.prompt

    def finished(self, request: Request) -> None:
        self._requests[request.replica] -= 1

    def tick(self) -> None:
        pass
