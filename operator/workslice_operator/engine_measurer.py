"""Asks engines in the background how large their KV cache is: an engine that cannot be reached holds up no pool."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from workslice_operator.keys import Key
from workslice_operator.observed import EngineLoad, PodFacts

AGAIN_SECONDS: Final = 300.0
"""After an engine did not say how large its KV cache is."""
_AT_ONCE: Final = 8


class EngineMeasurer:
    """One answer per pool; all of it can be lost."""

    def __init__(
        self,
        engine: Callable[[str], Awaitable[EngineLoad | None]],
        wake: Callable[[Key], None],
        monotonic: Callable[[], float],
    ) -> None:
        """`engine` gives the load of the engine at an IP address; `wake` queues the key of a pool whose engine has answered."""
        self._engine = engine
        self._wake = wake
        self._monotonic = monotonic
        self._answers: dict[Key, tuple[str, float, int | None]] = {}
        """UID of the pod that was asked last, when, and its answer."""
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self._few = asyncio.Semaphore(_AT_ONCE)

    def kv_tokens(self, key: Key, pod: PodFacts) -> int | None:
        """What the pod's engine has said; None while it has not: then it is asked, unless it just was."""
        uid, asked_at, tokens = self._answers.get(key, ("", float("-inf"), None))
        if uid == pod.uid and (tokens or self._monotonic() - asked_at < AGAIN_SECONDS):
            return tokens
        if key not in self._asking:
            self._asking[key] = asyncio.create_task(self._ask(key, pod), name=f"measure {key}")
        return None

    def forget(self, key: Key) -> None:
        """The pool is gone."""
        self._answers.pop(key, None)

    async def _ask(self, key: Key, pod: PodFacts) -> None:
        try:
            async with self._few:
                load = await self._engine(pod.address)
        finally:
            del self._asking[key]
        tokens = load.kv_tokens if load else None
        self._answers[key] = (pod.uid, self._monotonic(), tokens)
        if tokens:
            self._wake(key)
