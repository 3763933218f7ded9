"""What `make manifests` writes, on a cluster that has never seen Workslice: `kubectl apply` is all it takes, and a pool answers."""

from collections.abc import Iterator

import pytest
from demo.cluster_client import Cluster, connect
from demo.install_manifests import install_manifests
from demo.installation import NAMESPACE, RELEASE, Images, image_values, openai_client
from demo.question import SHORT_QUESTION, ask

from installed import MODEL
from scratch import Scratch
from second_cluster import SecondCluster
from workslice_cluster import images, models

pytestmark = pytest.mark.soak  # a cluster of its own and an engine's start: `make soak`


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with the images and nothing else."""
    tool = SecondCluster(tmp_path_factory.mktemp("without-helm") / "cluster")
    tool.run("up")
    tool.run("load", *(str(images.ensure(name)[0]) for name in ("operator", "router", "vllm")))
    yield connect(tool.state / "admin.kubeconfig")
    tool.run("down")


def apply(cluster: Cluster, text: str) -> None:
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=text)
    for program in ("operator", "router"):
        cluster.kubectl(
            *("rollout", "status", f"deployment/{RELEASE}-{program}", "-n", NAMESPACE, "--timeout=100s"), seconds=110
        )


def pods(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["uid"] for pod in cluster.objects("pods", NAMESPACE)}


def test_one_apply_installs_all_of_it_and_a_pool_answers(cluster: Cluster) -> None:
    built = Images(*(images.ensure(name)[1] for name in ("operator", "router", "vllm")))
    text = install_manifests(*image_values(built))
    apply(cluster, text)

    scratch = Scratch(cluster, "e2e-without-helm", built.engine, models.ensure(MODEL).parent)
    scratch.create()
    scratch.profile(slice_profile="1g.10gb")
    scratch.pool(model=MODEL)
    scratch.wait_for("Ready", "True", "PoolReady", seconds=240)
    address = cluster.get("service", RELEASE, NAMESPACE)["spec"]["clusterIP"]
    with openai_client(f"http://{address}/v1") as client:
        assert ask(client, MODEL, SHORT_QUESTION, stream=False, max_tokens=8).pool == "e2e-without-helm/pool"

    before = pods(cluster)
    apply(cluster, text)
    assert pods(cluster) == before, "applying the same file again changes nothing"
