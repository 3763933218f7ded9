"""Every metric of the operator, declared in one table from which the documentation is generated too."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

PREFIX: Final = "workslice_operator_"
_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


@dataclass(frozen=True)
class Metric:
    """One row of the table; `name` is what Prometheus stores (counters end in _total)."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


def _metric(type_: Literal["counter", "gauge", "histogram"], name: str, help_: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, type_, labels, help_)


METRICS: Final = (
    _metric("gauge", "workqueue_depth", "Keys that wait to be reconciled now."),
    _metric("counter", "workqueue_adds_total", "Keys added to the queue."),
    _metric("histogram", "workqueue_queue_duration_seconds", "How long keys waited before they were reconciled."),
    _metric("histogram", "workqueue_work_duration_seconds", "How long one reconcile took."),
    _metric("gauge", "workqueue_unfinished_work_seconds", "Sum of the running times of reconciles in progress."),
    _metric(
        "gauge", "workqueue_longest_running_processor_seconds", "Running time of the longest reconcile in progress."
    ),
    _metric("counter", "workqueue_retries_total", "Reconciles that failed and will be retried."),
    _metric("counter", "reconcile_errors_total", "Failed reconciles by kind of object and error.", "kind", "error"),
    _metric(
        "counter",
        "decisions_total",
        "Decisions about a pool, by the reason of its Event.",
        "namespace",
        "pool",
        "reason",
    ),
    _metric("counter", "applies_total", "Server-side applies of children.", "kind"),
    _metric("counter", "status_writes_total", "Status writes.", "kind"),
    _metric(
        "gauge",
        "pool_queue_depth",
        "Requests queued at the routers plus running; absent while unknown.",
        "namespace",
        "pool",
    ),
    _metric("gauge", "pool_desired_replicas", "Replicas that the operator wants.", "namespace", "pool"),
    _metric("gauge", "pool_ready_replicas", "Replicas that are ready.", "namespace", "pool"),
    _metric(
        "gauge",
        "pool_fault",
        "1 for each condition of a pool that needs a person if it stays, by its reason.",
        "namespace",
        "pool",
        "condition",
        "reason",
    ),
    _metric(
        "gauge",
        "profile_fault",
        "1 for each condition of a profile that needs a person if it stays, by its reason.",
        "profile",
        "condition",
        "reason",
    ),
    _metric(
        "gauge",
        "routers",
        "Routers by state: synced, unsynced, silent (no answer: their numbers count as unknown).",
        "state",
    ),
    _metric("gauge", "leader", "1 while this process holds the Lease and reconciles."),
    _metric("gauge", "tasks", "Tasks of the event loop; a number that only grows is a leak."),
    _metric("gauge", "last_resync_timestamp_seconds", "Unix time of the last complete resync."),
)


class Metrics:
    """The collectors of the table, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shown_faults: dict[tuple[str, tuple[str, ...]], frozenset[tuple[str, str]]] = {}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        for metric in METRICS:
            if metric.type == "counter":
                name = metric.name.removesuffix("_total")
                self._counters[metric.name] = Counter(name, metric.help, metric.labels, registry=self._registry)
            elif metric.type == "gauge":
                self._gauges[metric.name] = Gauge(metric.name, metric.help, metric.labels, registry=self._registry)
            else:
                self._histograms[metric.name] = Histogram(
                    metric.name, metric.help, metric.labels, registry=self._registry, buckets=_SECONDS
                )
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)

    def count(self, name: str, *labels: str) -> None:
        """Add one to a counter (named without the prefix)."""
        counter = self._counters[PREFIX + name]
        (counter.labels(*labels) if labels else counter).inc()

    def set(self, name: str, value: float | None, *labels: str) -> None:
        """Set a gauge; None removes the labelled series."""
        gauge = self._gauges[PREFIX + name]
        if value is not None:
            (gauge.labels(*labels) if labels else gauge).set(value)
        elif labels in gauge._metrics:  # remove() would warn about a series that is not there
            gauge.remove(*labels)

    def show_faults(self, name: str, faults: Collection[tuple[str, str]], *of: str) -> None:
        """Set a gauge whose labels end in condition and reason to 1 for each fault of one object; others of the object go."""
        shown = self._shown_faults.pop((name, of), frozenset())
        for fault in shown.difference(faults):
            self.set(name, None, *of, *fault)
        for fault in faults:
            self.set(name, 1, *of, *fault)
        if faults:
            self._shown_faults[name, of] = frozenset(faults)

    def follow(self, name: str, read: Callable[[], float]) -> None:
        """Let a gauge without labels read its value when it is scraped."""
        self._gauges[PREFIX + name].set_function(read)

    def observe(self, name: str, seconds: float) -> None:
        """Add an observation to a histogram without labels."""
        self._histograms[PREFIX + name].observe(seconds)

    def forget_pool(self, namespace: str, pool: str) -> None:
        """Drop the series of a pool that is gone."""
        for name in ("pool_queue_depth", "pool_desired_replicas", "pool_ready_replicas"):
            self.set(name, None, namespace, pool)
        self.show_faults("pool_fault", (), namespace, pool)
        counter = self._counters[PREFIX + "decisions_total"]
        for labels in [one for one in counter._metrics if one[:2] == (namespace, pool)]:
            counter.remove(*labels)


class QueueMetrics:
    """Passes what happens in the work queue to its metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def added(self) -> None:
        """A key was queued."""
        self._metrics.count("workqueue_adds_total")

    def retried(self) -> None:
        """A key failed and will run again."""
        self._metrics.count("workqueue_retries_total")

    def queued_for(self, seconds: float) -> None:
        """A key was taken."""
        self._metrics.observe("workqueue_queue_duration_seconds", seconds)

    def worked_for(self, seconds: float) -> None:
        """A run ended."""
        self._metrics.observe("workqueue_work_duration_seconds", seconds)
