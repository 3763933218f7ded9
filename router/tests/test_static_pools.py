"""Pools from a file."""

from pathlib import Path

import pytest
from routed_pools import Bench

from workslice_router.replica_load import EnginePace, ServiceLevel
from workslice_router.routing_table import RoutingTable
from workslice_router.static_pools import StaticPoolsError, apply_static_pools, load_static_pools

GOOD = """
profiles:
  - name: small
    spec:
      model: {source: /models/tiny}
      slice: {profiles: [1g.10gb]}
      workspace: {maxTokens: 2048, maxConcurrent: 4}
pools:
  - name: short
    spec:
      profileRef: {name: small}
      model: tiny
      aliases: [gpt-4o-mini]
      requestClass: {name: short, maxTotalTokens: 1024}
      queue: {maxDepth: 5, maxWait: 1m30s}
    replicas: ["127.0.0.1:8001", "[::1]:8002"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pools.yaml"
    path.write_text(text)
    return path


def test_reads_the_same_specs_as_the_api(tmp_path: Path) -> None:
    (pool,) = load_static_pools(write(tmp_path, GOOD))
    spec = pool.spec
    assert (spec.key, spec.model, spec.aliases, spec.class_name) == ("default/short", "tiny", ("gpt-4o-mini",), "short")
    assert (spec.class_tokens, spec.context_tokens, spec.max_concurrent) == (1024, 2048, 4)
    assert (spec.queue_depth, spec.queue_wait) == (5, 90.0)
    assert [(one.uid, one.host, one.port) for one in pool.replicas] == [
        ("127.0.0.1:8001", "127.0.0.1", 8001),
        ("[::1]:8002", "::1", 8002),
    ]


def test_reads_what_keeps_a_pool_to_its_class_and_how_long_a_start_may_take(tmp_path: Path) -> None:
    (plain,) = load_static_pools(write(tmp_path, GOOD))
    assert (plain.spec.class_prompt_tokens, plain.spec.strict, plain.spec.cold_start_wait) == (None, False, 300.0)
    changed = GOOD.replace("maxTotalTokens: 1024", "maxTotalTokens: 1024, maxPromptTokens: 900")
    changed = changed.replace("maxWait: 1m30s", "maxWait: 1m30s, coldStartMaxWait: 10m")
    changed = changed.replace("      model: tiny", "      spillover: Strict\n      model: tiny")
    (pool,) = load_static_pools(write(tmp_path, changed))
    assert (pool.spec.class_prompt_tokens, pool.spec.strict, pool.spec.cold_start_wait) == (900, True, 600.0)


def test_serves_requests_from_the_file(tmp_path: Path) -> None:
    table = RoutingTable()
    apply_static_pools(table, load_static_pools(write(tmp_path, GOOD)))
    assert table.synced
    assert Bench(table).lease(model="gpt-4o-mini").pool.spec.model == "tiny"


def test_a_second_reading_replaces_the_first(tmp_path: Path) -> None:
    table = RoutingTable()
    apply_static_pools(table, load_static_pools(write(tmp_path, GOOD)))
    apply_static_pools(
        table, load_static_pools(write(tmp_path, GOOD.replace("name: short\n    spec", "name: other\n    spec")))
    )
    assert set(table.pools) == {"default/other"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pools:", "pools: [", "not valid YAML"),
        (GOOD, "- a list", "must be a mapping"),
        (GOOD, "pools: []", "at least 1 item"),
        ("maxTotalTokens: 1024", "maxTotalTokens: 0", "pools[0].spec.requestClass.maxTotalTokens"),
        ("maxTotalTokens: 1024", "maxTotalToken: 1024", "no field 'requestClass.maxTotalToken'"),
        ("maxTotalTokens: 1024", "maxTotalTokens: 4096", "is larger than workspace.maxTokens 2048"),
        (
            "maxTotalTokens: 1024",
            "maxTotalTokens: 1024, maxPromptTokens: 1025",
            "larger than requestClass.maxTotalTokens 1024",
        ),
        ("      model: tiny", "      spillover: Hard\n      model: tiny", "pools[0].spec.spillover"),
        ("profileRef: {name: small}", "profileRef: {name: large}", "has: small"),
        ('"127.0.0.1:8001"', '"127.0.0.1"', "must be written host:port"),
        ('"127.0.0.1:8001"', '"127.0.0.1:99999"', "must be written host:port"),
        ('"127.0.0.1:8001"', '"127.0.0.1\\nx: y:80"', "must be written host:port"),
        ('["127.0.0.1:8001", "[::1]:8002"]', "[]", "pools[0].replicas"),
        ("name: small\n    spec", "name: small\n    spek", "profiles[0]"),
        ("maxWait: 1m30s", "maxWait: soon", "pools[0].spec.queue.maxWait"),
        ("1g.10gb", "10gb", "profiles[0].spec.slice.profiles"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(StaticPoolsError) as caught:
        load_static_pools(write(tmp_path, GOOD.replace(old, new)))
    assert message in str(caught.value)
    assert "pools.yaml" in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StaticPoolsError, match=r"cannot read .*missing\.yaml: No such file"):
        load_static_pools(tmp_path / "missing.yaml")


def test_two_pools_of_one_name_and_a_model_of_two_namespaces_are_refused(tmp_path: Path) -> None:
    pool = GOOD[GOOD.index("  - name: short") :]
    with pytest.raises(StaticPoolsError, match="two pools are called default/short"):
        load_static_pools(write(tmp_path, GOOD + pool))
    elsewhere = pool.replace("name: short\n    spec", "name: short\n    namespace: other\n    spec")
    with pytest.raises(StaticPoolsError, match="belongs to namespace 'default'"):
        load_static_pools(write(tmp_path, GOOD + elsewhere))


def test_a_service_level_and_the_first_guess_of_the_pace_come_from_the_spec(tmp_path: Path) -> None:
    objective = "maxTotalTokens: 1024, slo: {timeToFirstToken: 800ms}"
    (pool,) = load_static_pools(write(tmp_path, GOOD.replace("maxTotalTokens: 1024", objective)))
    assert pool.spec.level == ServiceLevel(0.8, 0.05)
    assert pool.spec.first_pace == EnginePace(4000.0, 512, 4), "a seventh of a GPU, 512 of 2048 tokens for a prompt"


def test_without_an_objective_there_is_no_service_level(tmp_path: Path) -> None:
    (pool,) = load_static_pools(write(tmp_path, GOOD))
    assert pool.spec.level is None


def test_a_prompt_may_take_the_whole_step_where_long_prefills_have_no_threshold(tmp_path: Path) -> None:
    engine = "slice: {profiles: [whole]}\n      engine: {longPrefillTokenThreshold: 0}"
    (pool,) = load_static_pools(write(tmp_path, GOOD.replace("slice: {profiles: [1g.10gb]}", engine)))
    assert pool.spec.first_pace == EnginePace(28_000.0, 2048, 1)


def test_what_a_pool_degrades_to_comes_from_the_api(tmp_path: Path) -> None:
    file = tmp_path / "pools.yaml"
    file.write_text(
        """
profiles: [{name: small, spec: {model: {source: /models/tiny}, slice: {profiles: [1g.10gb]}}}]
pools:
  - name: short
    spec:
      profileRef: {name: small}
      model: tiny
      requestClass: {name: short, maxTotalTokens: 1024}
      degrade: {maxTokens: 64, fallbackModel: other}
    replicas: ["127.0.0.1:8001"]
"""
    )
    (one,) = load_static_pools(file)
    assert (one.spec.degrade_tokens, one.spec.fallback_model) == (64, "other")
