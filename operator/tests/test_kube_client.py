import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from eventually import eventually
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject

from workslice_operator.kube import KubeClient, KubeUnconfigured, connect_kube
from workslice_operator.kube_api import (
    LEASES,
    LOG_BYTES,
    NODES,
    PODS,
    POOLS,
    SERVICES,
    Conflict,
    Gone,
    KubeError,
    NamespaceGoing,
    NotFound,
    Object,
    Refused,
    Unavailable,
)


class Api:
    """A scripted API server that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[web.Request] = []
        self.bodies: list[Any] = []
        self.answers: list[tuple[int, Any]] = []
        self.headers: dict[str, str] = {}
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        text = await request.text()
        self.bodies.append(json.loads(text) if text else None)
        status, document = self.answers.pop(0)
        text = document if isinstance(document, str) else json.dumps(document)
        return web.Response(status=status, text=text, headers=self.headers)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    scripted = Api()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", scripted.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    scripted.port = runner.addresses[0][1]
    yield scripted
    await runner.cleanup()


@pytest.fixture
async def kube(api: Api) -> AsyncIterator[KubeClient]:
    configuration = Configuration(host=f"http://127.0.0.1:{api.port}")
    configuration.api_key["BearerToken"] = "bearer secret"
    rest = RESTClientObject(configuration)  # type: ignore[no-untyped-call]
    yield KubeClient(configuration, rest)
    await rest.close()


async def test_an_object_is_read_with_the_present_token(api: Api, kube: KubeClient) -> None:
    api.answers = [(200, {"kind": "WorkspacePool"})]
    assert await kube.get(POOLS, "shop", "chat") == {"kind": "WorkspacePool"}
    assert api.asked[0].path == "/apis/workslice.dev/v1alpha1/namespaces/shop/workspacepools/chat"
    assert api.asked[0].headers["authorization"] == "bearer secret"


async def test_an_object_that_is_not_there_is_none(api: Api, kube: KubeClient) -> None:
    api.answers = [(404, {"message": "not found"})]
    assert await kube.get(SERVICES, "shop", "chat") is None


async def test_a_list_is_read_in_pages(api: Api, kube: KubeClient) -> None:
    api.answers = [
        (200, {"items": [{"n": 1}], "metadata": {"continue": "next"}}),
        (200, {"items": [{"n": 2}], "metadata": {}}),
    ]
    assert await kube.list(PODS, labels="a=b,c", fields="spec.nodeName!=") == [{"n": 1}, {"n": 2}]
    assert api.asked[0].path == "/api/v1/pods"
    assert dict(api.asked[1].query) == {
        "limit": "500",
        "labelSelector": "a=b,c",
        "fieldSelector": "spec.nodeName!=",
        "continue": "next",
    }


async def test_a_cluster_scoped_kind_has_no_namespace_in_its_path(api: Api, kube: KubeClient) -> None:
    api.answers = [(200, {})]
    await kube.get(NODES, "", "n1")
    assert api.asked[0].path == "/api/v1/nodes/n1"


async def test_apply_is_a_forced_server_side_apply_under_our_name(api: Api, kube: KubeClient) -> None:
    api.answers = [(200, {"metadata": {"resourceVersion": "7"}})]
    manifest = {"metadata": {"namespace": "shop", "name": "chat-engine"}, "spec": {}}
    assert (await kube.apply(SERVICES, manifest))["metadata"]["resourceVersion"] == "7"
    request = api.asked[0]
    assert (request.method, request.content_type) == ("PATCH", "application/apply-patch+yaml")
    assert request.query["fieldManager"] == "workslice-operator"
    assert request.query["force"] == "true"
    assert api.bodies == [manifest]


async def test_a_dry_apply_asks_the_same_and_stores_nothing(api: Api, kube: KubeClient) -> None:
    api.answers.append((200, {}))
    await kube.dry_apply(SERVICES, {"metadata": {"namespace": "shop", "name": "chat-engine"}}, "kubectl")
    assert dict(api.asked[0].query)["dryRun"] == "All"
    assert dict(api.asked[0].query)["fieldManager"] == "kubectl"


async def test_a_status_goes_to_its_subresource_under_a_manager_of_its_own(api: Api, kube: KubeClient) -> None:
    api.answers = [(200, {})]
    await kube.apply_status(POOLS, {"metadata": {"namespace": "shop", "name": "chat"}, "status": {}})
    assert api.asked[0].path.endswith("/workspacepools/chat/status")
    assert api.asked[0].query["fieldManager"] == "workslice-operator-status"


async def test_create_replace_and_patch_use_their_verbs(api: Api, kube: KubeClient) -> None:
    api.answers = [(201, {}), (200, {}), (200, {})]
    lease = {"metadata": {"namespace": "ws", "name": "l"}}
    await kube.create(LEASES, lease)
    await kube.replace(LEASES, lease)
    await kube.merge_patch(LEASES, "ws", "l", {"spec": {}})
    assert [(one.method, one.path.rsplit("/", 1)[-1], one.content_type) for one in api.asked] == [
        ("POST", "leases", "application/json"),
        ("PUT", "l", "application/json"),
        ("PATCH", "l", "application/merge-patch+json"),
    ]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (422, Refused),
        (401, Unavailable),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_every_error_has_its_type_and_the_apis_message(
    api: Api, kube: KubeClient, status: int, kind: type[KubeError]
) -> None:
    api.answers = [(status, {"kind": "Status", "message": "spec.x: Invalid value"})]
    with pytest.raises(kind, match=r"spec\.x: Invalid value") as raised:
        await kube.apply(SERVICES, {"metadata": {"name": "a"}})
    assert raised.value.status == status


async def test_a_namespace_on_its_way_out_has_an_error_of_its_own(api: Api, kube: KubeClient) -> None:
    causes = [{"reason": "NamespaceTerminating"}]
    api.answers = [(403, {"message": "it is being terminated", "details": {"causes": causes}})]
    with pytest.raises(NamespaceGoing):
        await kube.apply(SERVICES, {"metadata": {"name": "a"}})


async def test_an_answer_that_is_no_status_object_is_quoted(api: Api, kube: KubeClient) -> None:
    api.answers = [(502, "<html>bad gateway</html>")]
    with pytest.raises(Unavailable, match="bad gateway"):
        await kube.list(PODS)


async def test_an_api_that_cannot_be_reached_is_unavailable() -> None:
    configuration = Configuration(host="http://127.0.0.1:9")
    rest = RESTClientObject(configuration)  # type: ignore[no-untyped-call]
    with pytest.raises(Unavailable, match="GET /api/v1/pods"):
        await KubeClient(configuration, rest).list(PODS)
    await rest.close()


@pytest.mark.parametrize("groups", [[], [{"name": "apps"}]])
async def test_a_group_that_is_not_served_has_no_kinds(api: Api, kube: KubeClient, groups: list[Any]) -> None:
    api.answers = [(200, {"groups": groups})]
    assert await kube.served("workslice.dev/v1alpha1") == frozenset()


async def test_served_kinds_are_listed(api: Api, kube: KubeClient) -> None:
    api.answers = [
        (200, {"groups": [{"name": "workslice.dev"}]}),
        (200, {"resources": [{"name": "workspacepools"}, {"name": "workspacepools/status"}]}),
    ]
    assert await kube.served("workslice.dev/v1alpha1") == {"workspacepools", "workspacepools/status"}


async def test_without_any_configuration_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", "/nonexistent")
    with pytest.raises(KubeUnconfigured, match="set KUBECONFIG"):
        async with connect_kube():
            pass


@pytest.mark.parametrize("content", ["a: [", "", "hello", "users: 5\n", b"\xa1\xff", None], ids=str)
async def test_a_kubeconfig_that_cannot_be_read_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | bytes | None
) -> None:
    file = tmp_path / "kubeconfig"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    with pytest.raises(KubeUnconfigured, match=r"set KUBECONFIG\Z") as raised:
        async with connect_kube():
            pass
    assert "\n" not in str(raised.value)


async def test_a_client_certificate_that_is_none_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = base64.b64encode(b"no certificate").decode()
    user = {"client-certificate-data": content, "client-key-data": content}
    parts = {"clusters": {"cluster": {"server": "https://127.0.0.1:1"}}, "users": {"user": user}}
    parts["contexts"] = {"context": {"cluster": "it", "user": "it"}}
    (tmp_path / "kubeconfig").write_text(
        json.dumps({"current-context": "it", **{name: [{"name": "it", **one}] for name, one in parts.items()}})
    )
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "kubeconfig"))
    with pytest.raises(KubeUnconfigured, match="set KUBECONFIG"):
        async with connect_kube():
            pass


@pytest.mark.parametrize("answer", ["<html>please log in</html>", [1, 2], "null"])
async def test_what_answers_without_a_kubernetes_object_is_no_api(api: Api, kube: KubeClient, answer: Any) -> None:
    api.answers = [(200, answer)]
    with pytest.raises(Unavailable, match="GET /api/v1/pods: what answers is not a Kubernetes API"):
        await kube.list(PODS)


async def test_the_end_of_a_pods_log_is_text_and_bounded(api: Api, kube: KubeClient) -> None:
    api.answers = [(200, "one\ntwo\n")]
    assert await kube.pod_log("shop", "chat-1", "engine", previous=True, lines=50) == "one\ntwo\n"
    (asked,) = api.asked
    assert asked.path == "/api/v1/namespaces/shop/pods/chat-1/log"
    assert dict(asked.query) == {
        "container": "engine",
        "previous": "true",
        "tailLines": "50",
        "limitBytes": str(4 * 1024 * 1024),
    }


async def test_a_log_with_lines_too_long_is_read_with_fewer_since_its_end_would_be_cut_off(
    api: Api, kube: KubeClient
) -> None:
    cut = "x" * LOG_BYTES
    api.answers = [(200, cut), (200, "the end\n")]
    assert await kube.pod_log("shop", "chat-1", "engine", previous=False, lines=10_000) == "the end\n"
    assert [one.query["tailLines"] for one in api.asked] == ["10000", "500"]


async def test_a_single_line_over_the_limit_comes_as_far_as_it_goes(api: Api, kube: KubeClient) -> None:
    cut = "x" * LOG_BYTES
    api.answers = [(200, cut)] * 3
    assert await kube.pod_log("shop", "chat-1", "engine", previous=False, lines=30) == cut
    assert [one.query["tailLines"] for one in api.asked] == ["30", "1"]


@pytest.mark.parametrize("status", [429, 503])
async def test_an_api_that_says_when_to_come_back_is_not_asked_before(api: Api, kube: KubeClient, status: int) -> None:
    api.answers, api.headers = [(status, "too many requests"), (200, {"items": []})], {"Retry-After": "1"}
    began = asyncio.get_running_loop().time()
    assert await kube.list(PODS) == []
    assert asyncio.get_running_loop().time() - began >= 1
    assert len(api.asked) == 2


async def test_whoever_asks_for_the_same_waits_too_and_others_do_not(api: Api, kube: KubeClient) -> None:
    api.answers, api.headers = (
        [(429, ""), (200, {"items": [{"n": 1}]}), *[(200, {"items": []})] * 2],
        {"Retry-After": "1"},
    )
    first = asyncio.create_task(kube.list(PODS))
    await eventually(lambda: len(api.asked) == 1)
    second = asyncio.create_task(kube.list(PODS, labels="a=b"))
    assert await kube.list(NODES) == [{"n": 1}]
    assert not first.done()
    assert not second.done()
    assert await first == await second == []


async def test_a_wait_that_is_too_long_is_an_error_at_once_and_the_api_has_its_peace(
    api: Api, kube: KubeClient
) -> None:
    api.answers, api.headers = [(429, "")], {"Retry-After": "60"}
    for _ in range(3):
        with pytest.raises(Unavailable, match="wants to be asked again in 60 s"):
            await kube.list(PODS)
    assert len(api.asked) == 1


@pytest.mark.parametrize("words", ["", "0", "soon", "Fri, 31 Dec 1999 23:59:59 GMT"])
async def test_a_refusal_that_does_not_say_when_is_an_error_for_the_queue_to_retry(
    api: Api, kube: KubeClient, words: str
) -> None:
    api.answers, api.headers = [(429, "too many requests")], {"Retry-After": words}
    with pytest.raises(Unavailable, match="too many requests"):
        await kube.list(PODS)


async def test_a_watch_tells_of_changes_one_by_one(api: Api, kube: KubeClient) -> None:
    lines = [{"type": "ADDED", "object": {"n": 1}}, {"type": "BOOKMARK", "object": {"n": 2}}]
    api.answers = [(200, "".join(json.dumps(one) + "\n" for one in lines))]
    async with kube.watch(PODS, "app=x", "7") as events:
        assert [one async for one in events] == [("ADDED", {"n": 1}), ("BOOKMARK", {"n": 2})]
    assert api.asked[0].path == "/api/v1/pods"
    assert api.asked[0].query["resourceVersion"] == "7"
    assert api.asked[0].query["labelSelector"] == "app=x"


async def test_objects_of_any_size_are_told(api: Api, kube: KubeClient) -> None:
    """etcd holds 1.5 MB of one, and JSON may take six bytes for one of them."""
    told = json.dumps({"type": "ADDED", "object": {"long": "x" * 9_000_000}})
    api.answers = [(200, f"{told}\n{told}\n")]
    assert [len(raw["long"]) for _, raw in await followed(kube)] == [9_000_000] * 2


async def followed(kube: KubeClient) -> list[tuple[str, Object]]:
    async with kube.watch(PODS, "", "7") as events:
        return [one async for one in events]


@pytest.mark.parametrize("status", [200, 410])
async def test_a_watch_from_a_version_that_is_forgotten_must_begin_anew(
    api: Api, kube: KubeClient, status: int
) -> None:
    told = {"kind": "Status", "code": 410, "message": "too old"}
    api.answers = [(status, json.dumps({"type": "ERROR", "object": told}) if status == 200 else told)]
    with pytest.raises(Gone):
        await followed(kube)


async def test_a_watch_is_not_asked_for_again_before_the_api_wants_it(api: Api, kube: KubeClient) -> None:
    api.answers, api.headers = [(429, "too many requests")], {"Retry-After": "60"}
    for _ in range(2):
        with pytest.raises(Unavailable):
            await followed(kube)
    assert len(api.asked) == 1
