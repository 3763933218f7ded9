"""Following the Kubernetes API through everything that goes wrong with it."""

import asyncio
import copy
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_kubernetes_api import ScriptedApi

from workslice_router import kubernetes_watch
from workslice_router.kubernetes_access import KubernetesAccess
from workslice_router.kubernetes_watch import watch_kubernetes
from workslice_router.routing_table import RoutingTable


def pool(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "serving", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "profileRef": {"name": "small"},
            "model": f"model-{name}",
            "requestClass": {"name": "short", "maxTotalTokens": 1000},
            **spec,
        },
    }


def endpoints(pool_name: str, *uids: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{pool_name}-x", "namespace": "serving", "labels": {"workslice.dev/pool": pool_name}},
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}, "targetRef": {"uid": uid}} for uid in uids],
    }


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is waited for happens on the other side of a socket)
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubernetes_watch, "_FIRST_BACKOFF", 0.01)
    monkeypatch.setattr(kubernetes_watch, "_LONGEST_BACKOFF", 0.05)


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    made = ScriptedApi()
    for name in ("a", "b", "c"):
        made.put("workspacepools", pool(name))
        made.put("endpointslices", endpoints(name, f"pod-{name}"))
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def table(api: ScriptedApi) -> AsyncIterator[RoutingTable]:
    made = RoutingTable()
    access = KubernetesAccess(f"http://127.0.0.1:{api.port}", tls=False, token="t0ken")
    task = asyncio.create_task(watch_kubernetes(made, {}, access))
    yield made
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), task.exception()


async def watched(api: ScriptedApi, table: RoutingTable) -> None:
    await until(lambda: table.synced and len(api._watches) == 3)


async def test_takes_in_every_page_and_then_follows_changes(api: ScriptedApi, table: RoutingTable) -> None:
    await watched(api, table)
    assert set(table.pools) == {"serving/a", "serving/b", "serving/c"}
    api.put("workspacepools", pool("d"))
    api.put("endpointslices", endpoints("d", "pod-1", "pod-2"))
    api.delete("workspacepools", "serving/a")
    await until(lambda: set(table.routes) == {"model-b", "model-c", "model-d"})
    await until(lambda: len(table.pools["serving/d"].replicas) == 2)


def deep_dumps(value: Any, dumps: Callable[[Any], str] = json.dumps) -> str:
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        return dumps(value)
    finally:
        sys.setrecursionlimit(usual)


@pytest.mark.parametrize("levels", [60, 500, 3_000])
async def test_a_pool_that_is_nested_without_end_stops_no_other(
    api: ScriptedApi, table: RoutingTable, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    monkeypatch.setattr("scripted_kubernetes_api.json.dumps", deep_dumps)
    deep: dict[str, Any] = {}
    for _ in range(levels):
        deep = {"a": deep}
    api.put("workspacepools", pool("b", template={"affinity": deep}))
    await watched(api, table)
    api.put("workspacepools", pool("c", template={"affinity": deep}))
    api.put("workspacepools", pool("d"))
    await until(lambda: "serving/d" in table.pools)
    assert "serving/a" in table.pools


async def test_asks_only_for_its_own_endpoint_slices_with_its_token(api: ScriptedApi, table: RoutingTable) -> None:
    await watched(api, table)
    kinds = {kind for kind, _, _ in api.requests}
    assert kinds == {"workspacepools", "workspaceprofiles", "endpointslices"}
    for kind, parameters, headers in api.requests:
        assert headers["authorization"] == "Bearer t0ken"
        if kind == "endpointslices":
            assert parameters["labelSelector"] == "app.kubernetes.io%2Fmanaged-by%3Dworkslice"


async def test_a_broken_watch_goes_on_where_it_was_without_a_new_list(api: ScriptedApi, table: RoutingTable) -> None:
    await watched(api, table)
    api.break_watches()
    api.put("workspacepools", pool("d"))
    await until(lambda: "model-d" in table.routes)
    assert api.lists["workspacepools"] == 1


async def test_a_bookmark_moves_the_place_to_go_on_from(api: ScriptedApi, table: RoutingTable) -> None:
    await watched(api, table)
    api.version += 50
    api.bookmark("workspacepools")
    await asyncio.sleep(0.05)
    api.oldest = api.version
    api.break_watches()
    await until(
        lambda: any(
            kind == "workspacepools" and p.get("resourceVersion") == str(api.version) for kind, p, _ in api.requests
        )
    )
    assert api.lists["workspacepools"] == 1


@pytest.mark.parametrize("how", ["event", "status"])
async def test_what_was_deleted_during_a_gap_is_gone_after_the_new_list(
    api: ScriptedApi, table: RoutingTable, how: str
) -> None:
    await watched(api, table)
    api.delete("workspacepools", "serving/a", silently=True)
    api.delete("endpointslices", "serving/b-x", silently=True)
    api.oldest = api.version
    if how == "event":
        api.error("workspacepools", 410)
        api.error("endpointslices", 410)
    api.break_watches()
    await until(lambda: set(table.routes) == {"model-b", "model-c"})
    await until(lambda: table.pools["serving/b"].replicas == ())


async def test_keeps_what_it_knew_while_the_api_is_down_and_catches_up(
    api: ScriptedApi, table: RoutingTable, caplog: pytest.LogCaptureFixture
) -> None:
    await watched(api, table)
    with caplog.at_level(logging.DEBUG, kubernetes_watch.__name__):
        await api.stop()
        await until(lambda: caplog.text.count("cannot follow workspacepools") >= 10)
    assert len(table.routes) == 3
    assert table.synced
    loud = [one for one in caplog.records if one.levelno >= logging.WARNING and "workspacepools" in one.getMessage()]
    assert len(loud) == 2, "an outage is said when it begins and again when it lasts, not at every try"
    api.put("workspacepools", pool("d"))
    await api.start()
    await until(lambda: "model-d" in table.routes)


async def test_begins_before_the_crds_exist(api: ScriptedApi, caplog: pytest.LogCaptureFixture) -> None:
    api.status = {"workspacepools": 404, "workspaceprofiles": 404}
    table = RoutingTable()
    access = KubernetesAccess(f"http://127.0.0.1:{api.port}", tls=False)
    with caplog.at_level(logging.WARNING):
        task = asyncio.create_task(watch_kubernetes(table, {}, access))
        await until(lambda: "the CRDs are not installed yet" in caplog.text)
        assert not table.synced
        api.status = {}
        await until(lambda: table.synced and len(table.routes) == 3)
    task.cancel()
    await asyncio.wait([task])


async def test_a_missing_right_is_named_and_heals(
    api: ScriptedApi, table: RoutingTable, caplog: pytest.LogCaptureFixture
) -> None:
    await watched(api, table)
    with caplog.at_level(logging.WARNING):
        api.status = {"endpointslices": 403}
        api.break_watches()
        await until(lambda: "lacks the right" in caplog.text)
        assert len(table.routes) == 3
        api.status = {}
        api.put("endpointslices", endpoints("a", "pod-new"))
        await until(lambda: [one.uid for one in table.pools["serving/a"].replicas] == ["pod-new"])


async def test_an_object_that_cannot_be_read_does_not_stop_the_others(
    api: ScriptedApi, table: RoutingTable, caplog: pytest.LogCaptureFixture
) -> None:
    await watched(api, table)
    api.put("workspacepools", pool("broken", requestClass={}))
    api.put("workspacepools", pool("d"))
    await until(lambda: "model-d" in table.routes)
    assert "ignoring workspacepools serving/broken" in caplog.text


def changed(item: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    item = copy.deepcopy(item)
    inner: Any = item
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in way:
        inner = inner[part]
    inner[last] = value
    return item


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels", ["x"]),
        ("ports", 5),
        ("ports.0.port", "http"),
        ("endpoints", {"a": 1}),
        ("endpoints.0", None),
        ("endpoints.0.addresses", 5),
        ("endpoints.0.conditions", "ready"),
        ("endpoints.0.targetRef", ["uid"]),
        ("endpoints.0.targetRef.uid", {"a": 1}),
        ("endpoints.0.targetRef.uid", "x\r\nset-cookie: y"),
    ],
)
async def test_endpoints_of_a_shape_that_nobody_foresaw_keep_no_others_out(
    api: ScriptedApi, table: RoutingTable, path: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_watch, "_PAUSE_AFTER_FAULT", 0.01)
    await watched(api, table)
    api.put("endpointslices", changed(endpoints("a", "pod-new"), path, value))
    api.put("endpointslices", endpoints("b", "pod-new"))
    api.put("workspacepools", pool("d"))
    await until(lambda: [one.uid for one in table.pools["serving/b"].replicas] == ["pod-new"])
    await until(lambda: "model-d" in table.routes)
    assert not any(one.uid == value for one in table.pools["serving/a"].replicas)


@pytest.mark.parametrize("document", [[], "page", {"items": []}, {"items": [{}], "metadata": {}}, {"metadata": None}])
async def test_an_answer_that_is_not_the_apis_is_asked_for_again(
    api: ScriptedApi, table: RoutingTable, document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = api._answer
    with monkeypatch.context() as patched:
        patched.setattr(api, "_answer", lambda writer, status, _: answer(writer, status, document))
        await until(lambda: api.lists["workspacepools"] > 2)
    await watched(api, table)


async def test_reads_a_rotated_token_for_every_request(api: ScriptedApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    table = RoutingTable()
    access = KubernetesAccess(f"http://127.0.0.1:{api.port}", tls=False, token_file=token)
    task = asyncio.create_task(watch_kubernetes(table, {}, access))
    await watched(api, table)
    token.write_text("second\n")
    api.break_watches()
    await until(lambda: api.requests[-1][2]["authorization"] == "Bearer second")
    task.cancel()
    await asyncio.wait([task])


async def test_a_thousand_pools_do_not_hold_up_the_loop(api: ScriptedApi, table: RoutingTable) -> None:
    await watched(api, table)
    loop = asyncio.get_running_loop()
    longest = 0.0
    done = False

    async def beat() -> None:
        nonlocal longest
        while not done:
            before = loop.time()
            await asyncio.sleep(0)
            longest = max(longest, loop.time() - before)

    beating = asyncio.create_task(beat())
    for number in range(300):
        api.put("workspacepools", pool(f"p{number}"))
        await asyncio.sleep(0)
    await until(lambda: len(table.routes) == 303, 30)
    done = True
    await beating
    assert longest < 0.25, "a bound for a loaded machine; the steps themselves are far below a millisecond"
