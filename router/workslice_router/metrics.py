"""The router's metrics: one table of definitions, plain numbers on the hot path, and a small writer of the Prometheus text format."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from workslice_router.ejection import Outcome
from workslice_router.openai_errors import Reason
from workslice_router.routing_table import RoutingTable

_BOUNDS: Final = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0]
SECONDS: Final = tuple(_BOUNDS)  # of no known length: compiled code makes one of known length anew for each use
_MOST_SERIES: Final = 20_000
"""Per metric; what comes beyond is counted under the labels `other`."""
_POOLS_PER_PIECE: Final = 50


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric of the router's /metrics."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


REQUESTS: Final = Definition(
    "workslice_router_requests_total",
    "counter",
    ("endpoint", "pool", "class", "status"),
    "Requests answered, by HTTP status.",
)
DURATION: Final = Definition(
    "workslice_router_request_duration_seconds",
    "histogram",
    ("pool", "class"),
    "Time from the request's last byte to the answer's last byte.",
)
FIRST_TOKEN: Final = Definition(
    "workslice_router_time_to_first_token_seconds",
    "histogram",
    ("pool", "class"),
    "Time from the request's last byte to the first event of a streamed answer.",
)
QUEUE_WAIT: Final = Definition(
    "workslice_router_queue_wait_seconds",
    "histogram",
    ("pool", "class"),
    "How long requests waited that left a queue for a replica.",
)
TOKENS: Final = Definition(
    "workslice_router_tokens_total",
    "counter",
    ("pool", "kind"),
    "Tokens as engines reported them in `usage`: kind prompt or completion.",
)
TRUNCATED: Final = Definition(
    "workslice_router_truncated_answers_total",
    "counter",
    ("pool",),
    "Answers that the pool's context cut short: finish_reason length before max_tokens, or without it.",
)
DEGRADED: Final = Definition(
    "workslice_router_degraded_total",
    "counter",
    ("pool", "step"),
    "Requests that found no place and were answered with less, by the pool that says so: step max_tokens or fallback_model.",
)
REFUSED: Final = Definition(
    "workslice_router_refused_total",
    "counter",
    ("reason",),
    "Requests that the router itself refused or gave up, by reason.",
)
RETRIES: Final = Definition(
    "workslice_router_retries_total",
    "counter",
    ("pool", "cause"),
    "Attempts that failed before the first byte and were repeated.",
)
RETRIES_REFUSED: Final = Definition(
    "workslice_router_retries_refused_total",
    "counter",
    ("pool", "cause"),
    "Attempts that failed before the first byte and were not repeated, because a tenth of the pool's requests were already.",
)
EJECTIONS: Final = Definition(
    "workslice_router_ejections_total", "counter", ("pool",), "How often a replica was given a rest because it failed."
)
CLIENT_GONE: Final = Definition(
    "workslice_router_client_gone_total",
    "counter",
    ("pool",),
    "Requests whose client left before the answer was complete.",
)
CALLERS: Final = Definition(
    "workslice_router_caller_requests_total", "counter", ("caller", "status"), "Requests by the name of their API key."
)
CONNECTIONS: Final = Definition("workslice_router_client_connections", "gauge", (), "Open client connections.")
TASKS: Final = Definition(
    "workslice_router_tasks", "gauge", (), "Tasks of the event loop; a number that only grows is a leak."
)
QUEUED: Final = Definition("workslice_router_queued_requests", "gauge", ("pool",), "Requests that wait for a replica.")
QUEUED_TOKENS: Final = Definition(
    "workslice_router_queued_tokens", "gauge", ("pool",), "Estimated tokens of the requests that wait."
)
OLDEST_WAIT: Final = Definition(
    "workslice_router_oldest_wait_seconds", "gauge", ("pool",), "How long the first waiting request has waited."
)
RUNNING: Final = Definition("workslice_router_running_requests", "gauge", ("pool",), "Requests that run on replicas.")
OUTSTANDING: Final = Definition(
    "workslice_router_outstanding_tokens", "gauge", ("pool",), "Estimated tokens of the requests that run."
)
REPLICAS: Final = Definition(
    "workslice_router_replicas",
    "gauge",
    ("pool", "state"),
    "Replicas by state: available, not_ready, draining or ejected.",
)
LOAD_AGE: Final = Definition(
    "workslice_router_engine_load_age_seconds",
    "gauge",
    ("pool",),
    "Age of what the engines of a pool have told of their load, the oldest of those that count; 0 when none is known.",
)
UNKNOWN_LOAD: Final = Definition(
    "workslice_router_replicas_of_unknown_load",
    "gauge",
    ("pool",),
    "Ready replicas whose engine has not told its load for some seconds: what others have there is not weighed.",
)
SYNCED: Final = Definition("workslice_router_synced", "gauge", (), "1 once the router has seen all pools.")

DEFINITIONS: Final = (
    REQUESTS,
    DURATION,
    FIRST_TOKEN,
    QUEUE_WAIT,
    TOKENS,
    TRUNCATED,
    DEGRADED,
    REFUSED,
    RETRIES,
    RETRIES_REFUSED,
    EJECTIONS,
    CLIENT_GONE,
    CALLERS,
    CONNECTIONS,
    TASKS,
    QUEUED,
    QUEUED_TOKENS,
    OLDEST_WAIT,
    RUNNING,
    OUTSTANDING,
    REPLICAS,
    LOAD_AGE,
    UNKNOWN_LOAD,
    SYNCED,
)
"""Every metric, in the order of /metrics; docs/metrics.md is generated from it."""

Labels = tuple[str | int, ...]


class _Counter:
    __slots__ = ("definition", "values")

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.values: dict[Labels, list[int]] = {}
        """Each in a list of its own: labels are looked up once to change it, not once to read and once to write."""

    def add(self, labels: Labels, amount: int = 1) -> None:
        entry = self.values.get(labels)
        if entry is None:
            if len(self.values) >= _MOST_SERIES:
                labels = ("other",) * len(labels)
            entry = self.values.setdefault(labels, [0])
        entry[0] += amount


class _Histogram:
    __slots__ = ("definition", "values")

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.values: dict[Labels, tuple[list[int], list[float]]] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        entry = self.values.get(labels)
        if entry is None:
            if len(self.values) >= _MOST_SERIES:
                labels = ("other",) * len(labels)
            entry = self.values.setdefault(labels, ([0] * (len(SECONDS) + 1), [0.0]))
        counts, total = entry
        counts[bisect_left(_BOUNDS, seconds)] += 1
        total[0] += seconds


class Metrics:
    """Counts of one router since it started."""

    def __init__(self) -> None:
        self.connections = 0
        """Open client connections; the data path sets it."""
        self.tasks = 0
        """Tasks of the event loop; who renders sets it."""
        self._requests = _Counter(REQUESTS)
        self._duration = _Histogram(DURATION)
        self._first_token = _Histogram(FIRST_TOKEN)
        self._queue_wait = _Histogram(QUEUE_WAIT)
        self._tokens = _Counter(TOKENS)
        self._truncated = _Counter(TRUNCATED)
        self._degraded = _Counter(DEGRADED)
        self._refused = _Counter(REFUSED)
        self._retries = _Counter(RETRIES)
        self._retries_refused = _Counter(RETRIES_REFUSED)
        self._ejections = _Counter(EJECTIONS)
        self._client_gone = _Counter(CLIENT_GONE)
        self._callers = _Counter(CALLERS)

    def request_finished(self, endpoint: str, pool: str, class_name: str, status: int, seconds: float) -> None:
        """A request was answered; pool and class are "" when none was chosen."""
        self._requests.add((endpoint, pool, class_name, status))
        if pool:
            self._duration.observe((pool, class_name), seconds)

    def first_token(self, pool: str, class_name: str, seconds: float) -> None:
        """The first event of a stream went to its client."""
        self._first_token.observe((pool, class_name), seconds)

    def tokens(self, pool: str, prompt: int, completion: int) -> None:
        """An engine reported its usage."""
        self._tokens.add((pool, "prompt"), prompt)
        self._tokens.add((pool, "completion"), completion)

    def truncated(self, pool: str) -> None:
        """An answer is shorter than its request allowed, because the pool's context was full."""
        self._truncated.add((pool,))

    def degraded(self, pool: str, step: str) -> None:
        """A request got a place by asking for less."""
        self._degraded.add((pool, step))

    def queued(self, pool: str, class_name: str, seconds: float) -> None:
        """A request left a queue for a replica."""
        self._queue_wait.observe((pool, class_name), seconds)

    def refused(self, reason: Reason) -> None:
        """The router itself made the answer."""
        self._refused.add((reason.value,))

    def retried(self, pool: str, cause: Outcome) -> None:
        """An attempt failed and another one follows."""
        self._retries.add((pool, cause.value))

    def retry_refused(self, pool: str, cause: Outcome) -> None:
        """An attempt failed, and there were too many others already."""
        self._retries_refused.add((pool, cause.value))

    def ejected(self, pool: str) -> None:
        """A replica was given a rest."""
        self._ejections.add((pool,))

    def client_gone(self, pool: str) -> None:
        """A client left early; pool is "" while it was queued or before."""
        self._client_gone.add((pool,))

    def caller(self, name: str, status: int) -> None:
        """A request was answered; without API keys callers have no names and are not counted."""
        if name:
            self._callers.add((name, status))

    def render(self, table: RoutingTable, now: float) -> Iterator[str]:
        """The text exposition in pieces of at most about a millisecond, between which the event loop may do other things."""
        for counter in (
            self._requests,
            self._tokens,
            self._truncated,
            self._degraded,
            self._refused,
            self._retries,
            self._retries_refused,
            self._ejections,
            self._client_gone,
            self._callers,
        ):
            yield _header(counter.definition)
            yield from _pieces(
                f"{_series(counter.definition, labels)} {entry[0]}\n" for labels, entry in list(counter.values.items())
            )
        for histogram in (self._duration, self._first_token, self._queue_wait):
            yield _header(histogram.definition)
            yield from _pieces(
                _histogram_lines(histogram.definition, labels, *entry)
                for labels, entry in list(histogram.values.items())
            )
        yield _header(CONNECTIONS) + f"{CONNECTIONS.name} {self.connections}\n"
        yield _header(TASKS) + f"{TASKS.name} {self.tasks}\n"
        yield _header(SYNCED) + f"{SYNCED.name} {int(table.synced)}\n"
        yield from _pool_gauges(table, now)


def _pool_gauges(table: RoutingTable, now: float) -> Iterator[str]:
    gauges = (QUEUED, QUEUED_TOKENS, OLDEST_WAIT, RUNNING, OUTSTANDING, LOAD_AGE, UNKNOWN_LOAD, REPLICAS)
    lines: dict[str, list[str]] = {gauge.name: [_header(gauge)] for gauge in gauges}
    for index, pool in enumerate(list(table.pools.values())):
        label = (pool.key,)
        for gauge, value in (
            (QUEUED, len(pool.queue)),
            (QUEUED_TOKENS, pool.queue.tokens),
            (OLDEST_WAIT, round(pool.queue.oldest_wait(now), 3)),
            (RUNNING, pool.running),
            (OUTSTANDING, sum(replica.outstanding_tokens for replica in pool.replicas)),
            (LOAD_AGE, round(max((now - one.gauges_at for one in pool.replicas if one.gauges), default=0.0), 3)),
            (UNKNOWN_LOAD, sum(replica.spec.ready and replica.gauges is None for replica in pool.replicas)),
        ):
            lines[gauge.name].append(f"{_series(gauge, label)} {value}\n")
        states = {"available": 0, "not_ready": 0, "draining": 0, "ejected": 0}
        for replica in pool.replicas:
            if replica.spec.draining or not replica.listed:
                states["draining"] += 1
            elif not replica.spec.ready:
                states["not_ready"] += 1
            else:
                states["ejected" if replica.health.ejected else "available"] += 1
        for state, count in states.items():
            lines[REPLICAS.name].append(f"{_series(REPLICAS, (pool.key, state))} {count}\n")
        if index % _POOLS_PER_PIECE == _POOLS_PER_PIECE - 1:
            yield ""
    for gauge in gauges:
        yield "".join(lines[gauge.name])


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    piece: list[str] = []
    for line in lines:
        piece.append(line)
        if len(piece) == _POOLS_PER_PIECE:
            yield "".join(piece)
            piece.clear()
    yield "".join(piece)


def _header(definition: Definition) -> str:
    return f"# HELP {definition.name} {definition.help}\n# TYPE {definition.name} {definition.type}\n"


def _series(definition: Definition, labels: Labels) -> str:
    return f"{definition.name}{{{_pairs(definition, labels)}}}"


def _pairs(definition: Definition, labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in zip(definition.labels, labels, strict=True))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram_lines(definition: Definition, labels: Labels, counts: list[int], total: list[float]) -> str:
    pairs = _pairs(definition, labels)
    lines = []
    cumulative = 0
    for bound, count in zip((*SECONDS, "+Inf"), counts, strict=True):
        cumulative += count
        lines.append(f'{definition.name}_bucket{{{pairs},le="{bound}"}} {cumulative}\n')
    lines.append(f"{definition.name}_sum{{{pairs}}} {total[0]:.6f}\n")
    lines.append(f"{definition.name}_count{{{pairs}}} {cumulative}\n")
    return "".join(lines)
