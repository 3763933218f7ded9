"""Install, upgrade, rollback and uninstall by Helm; the engines run on through all of it."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from demo.installation import NAMESPACE, RELEASE, answering_endpoint, helm_install
from demo.load import Load
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

CRDS = ("workspacepools.workslice.dev", "workspaceprofiles.workslice.dev")


def engines(installation: Installation) -> set[str]:
    return {pod["metadata"]["uid"] for pod in installation.cluster.objects("pods", "demo")}


def router(installation: Installation) -> dict[str, Any]:
    return installation.cluster.objects("deployments", NAMESPACE, "app.kubernetes.io/component=router")[0]


def router_arguments(installation: Installation) -> str:
    return " ".join(router(installation)["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.fixture
def restored(pools: Installation) -> Iterator[Installation]:
    """The installation, put back as it was after the test."""
    yield pools
    helm_install(pools.cluster, pools.images)
    answering_endpoint(pools.cluster)


def test_an_upgrade_and_a_rollback_lose_no_request(restored: Installation) -> None:
    before = engines(restored)
    with Load(restored.client(), MODEL, in_flight=1, most=1, max_tokens=32) as load:
        helm_install(
            restored.cluster, restored.images, "--set=router.defaultOutputTokens=300", "--set=router.replicas=2"
        )
        assert "300" in router_arguments(restored)
        assert router(restored)["status"]["readyReplicas"] == 2
        restored.cluster.helm("rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "3m")
        assert "512" in router_arguments(restored)
        count = len(load.answers)

        def goes_on() -> None:
            if len(load.answers) < count + 3:
                raise NotYet("no answers since the rollback")

        wait_until("answers after the rollback", goes_on, seconds=60)
    assert load.failures == []
    assert engines(restored) == before


def test_a_misspelt_value_fails_the_upgrade_and_changes_nothing(restored: Installation) -> None:
    with pytest.raises(ClusterError, match="replicaz"):
        helm_install(restored.cluster, restored.images, "--set=router.replicaz=2")
    assert ask(restored.client(), MODEL, SHORT_QUESTION, stream=False).pool == "demo/short"


@pytest.mark.parametrize("words", [(), ("--set=crds.enabled=false",), ("--take-ownership",)], ids=str)
def test_a_second_installation_is_refused_and_told_which_is_the_first(
    pools: Installation, words: tuple[str, ...]
) -> None:
    chart = str(repository() / "charts" / "workslice")
    with pytest.raises(ClusterError, match=f"has Workslice already: release {RELEASE} in namespace {NAMESPACE}"):
        pools.cluster.helm("install", "second", chart, "--namespace", "e2e-second", "--create-namespace", *words)
    assert pools.cluster.objects("deployments", "e2e-second") == []
    assert router(pools)["status"]["readyReplicas"] == 1
    pools.cluster.kubectl("delete", "namespace", "e2e-second", "--ignore-not-found", "--wait=false")


def test_an_uninstall_keeps_pools_and_engines_and_the_next_installation_takes_them_over(restored: Installation) -> None:
    cluster, before = restored.cluster, engines(restored)
    cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "3m")
    for crd in CRDS:
        assert cluster.get("crd", crd)["metadata"]["name"] == crd
    for kind in ("wspool", "wsprof", "deployments"):
        assert all("finalizers" not in found["metadata"] for found in cluster.objects(kind, "demo"))
    assert engines(restored) == before
    assert cluster.objects("clusterroles", selector="app.kubernetes.io/part-of=workslice") == []

    helm_install(cluster, restored.images, "--set=crds.enabled=false")
    answering_endpoint(cluster)

    def answered() -> str:
        try:
            return ask(restored.client(), MODEL, SHORT_QUESTION, stream=False).pool
        except openai.OpenAIError as error:  # the new routers have not seen the pools yet
            raise NotYet(str(error)) from error

    assert wait_until("an answer", answered, seconds=60) == "demo/short"
    assert engines(restored) == before
