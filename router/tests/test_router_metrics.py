"""The router's metrics, read back by the official parser."""

from prometheus_client.parser import text_string_to_metric_families
from routed_pools import SHORT, Bench, replicas, table_of

from workslice_router.ejection import Outcome
from workslice_router.engine_gauges import EngineGauges
from workslice_router.metrics import DEFINITIONS, Metrics
from workslice_router.openai_errors import Reason
from workslice_router.replica_gauges import take_gauges
from workslice_router.routing_table import RoutingTable


def samples(metrics: Metrics, table: RoutingTable, now: float = 1000.0) -> dict[tuple[str, tuple[str, ...]], float]:
    text = "".join(metrics.render(table, now))
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_definition_is_exposed_with_its_type_and_help() -> None:
    text = "".join(Metrics().render(table_of((SHORT, replicas("a"))), 0.0))
    for definition in DEFINITIONS:
        assert f"# HELP {definition.name} {definition.help}\n# TYPE {definition.name} {definition.type}\n" in text
        assert definition.help.endswith(".")
    assert text.count("# TYPE") == len(DEFINITIONS)


def test_counts_what_the_data_path_reports() -> None:
    metrics = Metrics()
    metrics.request_finished("/v1/chat/completions", "a/b", "short", 200, 0.03)
    metrics.request_finished("/v1/chat/completions", "", "", 404, 0.03)
    metrics.first_token("a/b", "short", 0.7)
    metrics.tokens("a/b", 10, 5)
    metrics.truncated("a/b")
    metrics.refused(Reason.QUEUE_FULL)
    metrics.retried("a/b", Outcome.CONNECT_FAILED)
    metrics.client_gone("a/b")
    metrics.caller("ada", 200)
    metrics.connections = 4
    got = samples(metrics, table_of())
    assert got["workslice_router_requests_total", ("/v1/chat/completions", "a/b", "short", "200")] == 1
    assert got["workslice_router_requests_total", ("/v1/chat/completions", "", "", "404")] == 1
    assert got["workslice_router_request_duration_seconds_bucket", ("a/b", "short", "0.025")] == 0
    assert got["workslice_router_request_duration_seconds_bucket", ("a/b", "short", "0.05")] == 1
    assert got["workslice_router_request_duration_seconds_bucket", ("a/b", "short", "+Inf")] == 1
    assert got["workslice_router_time_to_first_token_seconds_sum", ("a/b", "short")] == 0.7
    assert got["workslice_router_tokens_total", ("a/b", "completion")] == 5
    assert got["workslice_router_truncated_answers_total", ("a/b",)] == 1
    assert got["workslice_router_refused_total", ("queue_full",)] == 1
    assert got["workslice_router_retries_total", ("a/b", "connect_failed")] == 1
    assert got["workslice_router_client_gone_total", ("a/b",)] == 1
    assert got["workslice_router_caller_requests_total", ("ada", "200")] == 1
    assert got["workslice_router_client_connections", ()] == 4


def test_gauges_show_pools_as_they_are() -> None:
    bench = Bench(table_of((SHORT, [*replicas("a", "b"), *replicas("c", ready=False), *replicas("d", draining=True)])))
    leases = [bench.lease() for _ in range(4)]
    bench.wait()
    bench.now += 2
    got = samples(bench.metrics, bench.table, bench.now)
    pool = "serving/short"
    assert got["workslice_router_queued_requests", (pool,)] == 1
    assert got["workslice_router_oldest_wait_seconds", (pool,)] == 2
    assert got["workslice_router_running_requests", (pool,)] == 4
    assert got["workslice_router_outstanding_tokens", (pool,)] == 800
    leases[0].settle(Outcome.RESET)
    got = samples(bench.metrics, bench.table, bench.now)
    states = {
        state: got["workslice_router_replicas", (pool, state)]
        for state in ("available", "not_ready", "draining", "ejected")
    }
    assert states == {"available": 1, "not_ready": 1, "draining": 1, "ejected": 1}
    assert got["workslice_router_ejections_total", (pool,)] == 1
    assert got["workslice_router_synced", ()] == 1


def test_the_wait_of_a_granted_request_is_observed() -> None:
    bench = Bench(table_of((SHORT, replicas("a"))))
    running = [bench.lease() for _ in range(2)]
    bench.wait()
    bench.now += 3
    running[0].settle(Outcome.OK)
    got = samples(bench.metrics, bench.table)
    assert got["workslice_router_queue_wait_seconds_sum", ("serving/short", "short")] == 3


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.caller('we"ird\\\n', 200)
    assert samples(metrics, table_of())["workslice_router_caller_requests_total", ('we"ird\\\n', "200")] == 1


def test_the_number_of_series_is_bounded() -> None:
    metrics = Metrics()
    for number in range(25_000):
        metrics.caller(f"caller-{number}", 200)
    got = samples(metrics, table_of())
    assert sum(name == "workslice_router_caller_requests_total" for name, _ in got) == 20_001
    assert got["workslice_router_caller_requests_total", ("other", "other")] == 5000


def test_an_engines_load_has_an_age_or_is_unknown_and_never_zero_for_want_of_news() -> None:
    table = table_of((SHORT, replicas("a", "b", "c")))
    (pool,) = table.pools.values()
    for number, seen in enumerate((990.0, 997.0)):
        take_gauges(pool, pool.replicas[number], EngineGauges(1, 0, None, None), 0, seen)
    got = samples(Metrics(), table, now=1000.0)
    assert got["workslice_router_engine_load_age_seconds", (SHORT.key,)] == 10
    assert got["workslice_router_replicas_of_unknown_load", (SHORT.key,)] == 1
