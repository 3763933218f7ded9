"""What others do, by their documented rules and defaults."""

from collections import deque
from collections.abc import Callable
from math import ceil, floor

from fleet import MAX_REPLICAS, MIN_REPLICAS, Look


class Static:
    """As many as somebody chose."""

    every = 60.0

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def desired(self, look: Look) -> int:
        return self._replicas


class HorizontalPodAutoscaler:
    """Kubernetes' own on the average of a metric per replica (KEDA's too, once there is a replica): a look every 15 s, 10 % tolerance,
    at most double or four more at a time, down to the most that it has wanted in five minutes.
    """

    every = 15.0
    _TOLERANCE = 0.1
    _WINDOW_SECONDS = 300.0

    def __init__(self, metric: Callable[[Look], int], target: float) -> None:
        self._metric = metric
        self._target = target
        self._wanted: deque[tuple[float, int]] = deque()

    def desired(self, look: Look) -> int:
        ratio = self._metric(look) / (self._target * look.current)
        wanted = look.current if abs(ratio - 1) <= self._TOLERANCE else ceil(self._metric(look) / self._target)
        wanted = min(wanted, max(2 * look.current, look.current + 4), MAX_REPLICAS)
        self._wanted.append((look.now, max(wanted, MIN_REPLICAS)))
        while self._wanted[0][0] <= look.now - self._WINDOW_SECONDS:
            self._wanted.popleft()
        if wanted >= look.current:
            return wanted
        return min(look.current, max(one for _, one in self._wanted))


class KnativePodAutoscaler:
    """Knative's on requests in flight: a stable window of 60 s, a panic window of 6 s, 70 % of the target."""

    every = 2.0
    _STABLE_SECONDS, _PANIC_SECONDS, _PANIC_RATIO, _DOWN_RATE = 60.0, 6.0, 2.0, 2.0

    def __init__(self, target: float, delay_seconds: float) -> None:
        self._target = target
        self._delay = delay_seconds
        self._seen: deque[tuple[float, int]] = deque()
        self._wanted: deque[tuple[float, int]] = deque()
        self._panic_since: float | None = None
        self._panic_most = 0

    def desired(self, look: Look) -> int:
        now = look.now
        self._seen.append((now, look.queued + look.running))
        while self._seen[0][0] <= now - self._STABLE_SECONDS:
            self._seen.popleft()
        ready = max(1, look.ready)
        stable = self._per_window(now - self._STABLE_SECONDS, ready)
        panic = self._per_window(now - self._PANIC_SECONDS, ready)
        if panic / ready >= self._PANIC_RATIO:
            self._panic_since = now
        elif self._panic_since is not None and now - self._panic_since > self._STABLE_SECONDS:
            self._panic_since, self._panic_most = None, 0
        wanted = stable
        if self._panic_since is not None:
            self._panic_most = max(self._panic_most, stable, panic)
            wanted = self._panic_most
        self._wanted.append((now, min(max(wanted, MIN_REPLICAS), MAX_REPLICAS)))
        while self._wanted[0][0] < now - self._delay:
            self._wanted.popleft()
        return max(one for _, one in self._wanted)

    def _per_window(self, since: float, ready: int) -> int:
        depths = [depth for at, depth in self._seen if at > since]
        return max(ceil(sum(depths) / len(depths) / self._target), floor(ready / self._DOWN_RATE))
