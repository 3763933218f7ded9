"""Brings Workslice from this checkout onto a cluster: its images, its chart, its endpoint."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from openai import DefaultHttpxClient, OpenAI

from demo import given_cluster, kind_cluster
from demo.cluster_choice import ClusterChoice, cluster_choice, need_embedded
from demo.cluster_client import Cluster, connect
from demo.made_by_demo import SELECTOR
from demo.objects_of_others import refuse_objects_of_others
from demo.offered_slices import offered_slices, slices_of_the_demo
from demo.port_forward import forwarded_port
from demo.waiting import NotYet, wait_until
from workslice_api.names import ROUTER_PORT
from workslice_cluster import images, instance, models
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.progress import say
from workslice_cluster.repository import repository

NAMESPACE = "workslice-system"
RELEASE = "workslice"
ROUTERS = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=router"
SYSTEM_NAMESPACE = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


@dataclass(frozen=True)
class Images:
    """References of the three images as pods name them."""

    operator: str
    router: str
    engine: str


def start_cluster() -> Cluster:
    """Return the cluster that CLUSTER chooses: the embedded one and kind's are started when they are not up.

    A cluster of others is looked at first: raises ClusterError when something is missing that the demo needs.
    """
    match cluster_choice():
        case ClusterChoice.EMBEDDED:
            cluster_tool("up")
            return connect(instance.from_environment().kubeconfig)
        case ClusterChoice.KIND:
            return connect(kind_cluster.start())
        case ClusterChoice.KUBECONFIG:
            return _given_cluster()


def _given_cluster() -> Cluster:
    named = given_cluster.kubeconfig()
    given_cluster.image_references()
    view = ("config", "view", "--minify", "--flatten", "--raw", "-o", "json")
    candidate = given_cluster.write_candidate(connect(named).kubectl(*view))
    try:
        found = connect(candidate)
        found.kubectl("get", "--raw=/readyz", "--request-timeout=15s")
        say(f"  context {given_cluster.context_name(candidate)} of {named}")
        demo_slices(found)
        refuse_objects_of_others(found, RELEASE, NAMESPACE)
        # Kept only now: what it is kept for is the removal of what the demo makes.
        return connect(candidate.rename(given_cluster.kept_kubeconfig()))
    finally:
        candidate.unlink(missing_ok=True)


def cluster_tool(*words: str) -> None:
    """Run the embedded cluster's tool with its progress on the terminal. Raises ClusterError when it fails."""
    need_embedded(f"`python -m workslice_cluster {' '.join(words)}`")
    if subprocess.run([sys.executable, "-m", "workslice_cluster", *words], check=False).returncode != 0:
        raise ClusterError(f"`python -m workslice_cluster {' '.join(words)}` failed: its message stands above")


def provide_images(cluster: Cluster) -> Images:
    """Build what changed, load it into the cluster and return the references; kind's nodes get their GPUs with it.

    On a cluster of others the environment names images that it has or can pull.
    """
    choice = cluster_choice()
    if choice is ClusterChoice.KUBECONFIG:
        return Images(*given_cluster.image_references())
    built = [images.ensure(name) for name in ("operator", "router", "vllm")]
    archives = [archive for archive, _ in built]
    if choice is ClusterChoice.KIND:
        kind_cluster.load(*archives)
        kind_cluster.add_gpus(cluster.kubectl)
    else:
        cluster_tool("load", *map(str, archives))
    return Images(*(reference for _, reference in built))


def models_directory(model: str) -> Path:
    """Return the folder on the nodes that holds the model; on a cluster of others the environment names it."""
    if cluster_choice() is ClusterChoice.KUBECONFIG:
        return given_cluster.models_directory(model)
    return models.ensure(model).parent


def demo_slices(cluster: Cluster) -> tuple[str, str]:
    """Return the slices for the short and the long pool, chosen from what the nodes offer now."""
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json", "--request-timeout=15s"))["items"]
    return slices_of_the_demo(offered_slices(nodes))


def helm_install(cluster: Cluster, parts: Images, *options: str) -> None:
    """Install the chart or bring the release to the same state; returns when operator and router are ready."""
    if cluster_choice() is ClusterChoice.KUBECONFIG:
        options = (f"--labels={SELECTOR}", *options)
        if not cluster.find("namespace", NAMESPACE):
            cluster.apply(SYSTEM_NAMESPACE)
    else:
        cluster.apply(SYSTEM_NAMESPACE)
    cluster.helm(
        *("upgrade", "--install", RELEASE, str(repository() / "charts" / "workslice"), "--namespace", NAMESPACE),
        *image_values(parts),
        *("--take-ownership", "--wait", "--timeout", "3m"),
        *options,
    )


def image_values(parts: Images) -> Sequence[str]:
    """Return the chart values that name the images."""
    words: list[str] = []
    for component, reference in (("operator", parts.operator), ("router", parts.router)):
        repository_name, _, tag = reference.rpartition(":")
        words += [f"--set={component}.image.repository={repository_name}", f"--set-string={component}.image.tag={tag}"]
    return words


def endpoint_url(cluster: Cluster) -> str:
    """Return the URL (with /v1) at which this machine reaches the routers.

    WORKSLICE_ENDPOINT names one. Without it the ClusterIP of the embedded cluster is used, and elsewhere a port-forward: an
    address of another cluster may well lead somewhere else from here.
    """
    if named := os.environ.get("WORKSLICE_ENDPOINT"):
        return named.rstrip("/")
    if is_forwarded():
        return f"http://127.0.0.1:{forwarded_port(cluster, NAMESPACE, ROUTERS, ROUTER_PORT)}/v1"
    spec = cluster.get("service", RELEASE, NAMESPACE)["spec"]
    port = spec["ports"][0]["port"]
    return f"http://{spec['clusterIP']}{'' if port == 80 else f':{port}'}/v1"


def is_forwarded() -> bool:
    """Whether the endpoint is a port-forward of this process, which ends with it."""
    return cluster_choice() is not ClusterChoice.EMBEDDED and not os.environ.get("WORKSLICE_ENDPOINT")


def answering_endpoint(cluster: Cluster) -> str:
    """Return the endpoint's URL once it answers: a ClusterIP may do so a second after the rollout is done."""

    def answers() -> str:
        url = endpoint_url(cluster)
        try:
            httpx.get(f"{url}/models", timeout=3, trust_env=False)
        except httpx.TransportError as error:
            raise NotYet(f"{url}: {error}") from error
        return url

    return wait_until("the endpoint to answer", answers, seconds=30, every=0.3)


def openai_client(url: str, api_key: str = "none") -> OpenAI:
    """Return a client that hides nothing: no retries, no proxy of this machine. `timeout` is in seconds."""
    http = DefaultHttpxClient(trust_env=False)
    return OpenAI(base_url=url, api_key=api_key, max_retries=0, timeout=120, http_client=http)
