"""Helm 3.17 installs, upgrades, rolls back and uninstalls the chart as Helm 4 does, and either takes over from the other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import openai
import pytest
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE, RELEASE, answering_endpoint, helm_install
from demo.question import SHORT_QUESTION, ask
from demo.waiting import NotYet, wait_until

from installed import MODEL, Installation
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.client_tools import OLDEST_HELM, ensure

CRDS = ("workspacepools.workslice.dev", "workspaceprofiles.workslice.dev")


@pytest.fixture
def helm_3(pools: Installation) -> Iterator[Cluster]:
    """The same cluster with Helm 3.17; Helm 4 puts the installation back afterwards."""
    yield replace(pools.cluster, helm_program=ensure(cache_folder(), OLDEST_HELM)["helm"])
    helm_install(pools.cluster, pools.images)
    answering_endpoint(pools.cluster)


def router(cluster: Cluster) -> dict[str, Any]:
    return cluster.objects("deployments", NAMESPACE, "app.kubernetes.io/component=router")[0]


def router_arguments(cluster: Cluster) -> list[str]:
    return list(router(cluster)["spec"]["template"]["spec"]["containers"][0]["args"])


def engines(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.objects("pods", "demo")}


def wait_for_an_answer(pools: Installation) -> None:
    answering_endpoint(pools.cluster)

    def answered() -> None:
        try:
            ask(pools.client(), MODEL, SHORT_QUESTION, stream=False, max_tokens=4)
        except openai.OpenAIError as error:  # new routers have not seen the pools yet
            raise NotYet(str(error)) from error

    wait_until("an answer", answered, seconds=60)


def test_helm_3_does_what_helm_4_does_and_engines_run_on(pools: Installation, helm_3: Cluster) -> None:
    assert helm_3.helm("version", "--short").startswith("v3.17.")
    before = engines(helm_3)
    helm_3.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "3m")
    assert [helm_3.get("crd", name)["metadata"]["name"] for name in CRDS] == list(CRDS)

    helm_install(helm_3, pools.images, "--set=router.defaultOutputTokens=300")
    assert "--default-output-tokens=300" in router_arguments(helm_3)
    wait_for_an_answer(pools)

    helm_install(helm_3, pools.images, "--set=router.defaultOutputTokens=400")
    assert "--default-output-tokens=400" in router_arguments(helm_3)
    helm_3.helm("rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "3m")
    assert "--default-output-tokens=300" in router_arguments(helm_3)

    # Helm 4 goes on with a release of Helm 3.
    helm_install(pools.cluster, pools.images)
    assert "--default-output-tokens=512" in router_arguments(helm_3)
    wait_for_an_answer(pools)
    assert engines(helm_3) == before
