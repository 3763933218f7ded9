"""With a Secret of keys the endpoint wants one of them; without it the endpoint is open."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import openai
import pytest
from demo.installation import NAMESPACE, helm_install
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation


@dataclass(frozen=True)
class Key:
    """An API key and what the Secret holds of it."""

    plain: str
    hashed: str


def new_key(name: str) -> Key:
    """Make a key with the router's own command, as docs/install.md says."""
    argv = [sys.executable, "-m", "workslice_router.api_keys", name]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    words = said.split()
    return Key(next(w for w in words if w.startswith("wsk-")), next(w for w in words if w.startswith("sha256:")))


@pytest.fixture(scope="module")
def key(pools: Installation) -> Iterator[str]:
    """The key of a caller named `alice`; the installation asks for keys while this file runs."""
    made = new_key("alice")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "callers", "namespace": NAMESPACE}}
    pools.cluster.apply([secret | {"stringData": {"alice": made.hashed}}])
    helm_install(pools.cluster, pools.images, "--set=apiKeys.existingSecret=callers")

    wait_until("the old routers to go", lambda: only_new_routers(pools), seconds=60)
    yield made.plain
    helm_install(pools.cluster, pools.images)
    pools.cluster.kubectl("delete", "secret", "callers", "-n", NAMESPACE)
    wait_until("the old routers to go", lambda: only_new_routers(pools), seconds=60)


def only_new_routers(pools: Installation) -> None:
    """During a rollout the old routers answer, too, and know other keys."""
    routers = pools.cluster.objects("pods", NAMESPACE, "app.kubernetes.io/component=router")
    if any("deletionTimestamp" in router["metadata"] for router in routers):
        raise NotYet(f"{len(routers)} routers")


def test_a_request_with_a_key_is_answered(pools: Installation, key: str) -> None:
    assert ask(pools.client(key), MODEL, SHORT_QUESTION, stream=True).pool == "demo/short"


@pytest.mark.parametrize("wrong", ["wrong", "", "wsk-" + "0" * 40])
def test_a_request_with_a_wrong_key_is_refused(pools: Installation, key: str, wrong: str) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        ask(pools.client(wrong or "none"), MODEL, SHORT_QUESTION, stream=False)
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["message"]


def test_the_caller_is_named_in_the_metrics_and_the_key_is_in_no_log(pools: Installation, key: str) -> None:
    ask(pools.client(key), MODEL, SHORT_QUESTION, stream=False)
    routers = pools.cluster.objects("pods", NAMESPACE, "app.kubernetes.io/component=router")
    pod = next(p["metadata"]["name"] for p in routers if "deletionTimestamp" not in p["metadata"])
    metrics = pools.cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:9090/proxy/metrics")
    assert 'caller="alice"' in metrics
    assert key not in pools.cluster.kubectl("logs", pod, "-n", NAMESPACE)
