"""Brings Workslice from this checkout onto a cluster: its images, its chart, its endpoint."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
from openai import DefaultHttpxClient, OpenAI

from demo.cluster_client import Cluster, connect, foreign_kubeconfig
from demo.waiting import NotYet, wait_until
from workslice_cluster import images, instance
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.repository import repository

NAMESPACE = "workslice-system"
RELEASE = "workslice"
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
    """Return the cluster that KUBECONFIG names, else the embedded one, started when it is not up."""
    named = foreign_kubeconfig()
    if named is not None:
        _image_names()
        return connect(named)
    cluster_tool("up")
    return connect(instance.from_environment().kubeconfig)


def cluster_tool(*words: str) -> None:
    """Run the cluster tool with its progress on the terminal. Raises ClusterError when it fails."""
    if subprocess.run([sys.executable, "-m", "workslice_cluster", *words], check=False).returncode != 0:
        raise ClusterError(f"`python -m workslice_cluster {' '.join(words)}` failed: its message stands above")


def provide_images(cluster: Cluster) -> Images:
    """Build what changed, load it into the embedded cluster and return the references.

    On another cluster WORKSLICE_OPERATOR_IMAGE, WORKSLICE_ROUTER_IMAGE and WORKSLICE_ENGINE_IMAGE name images that it can pull.
    """
    if cluster.kubeconfig != instance.from_environment().kubeconfig:
        return Images(*_image_names())
    built = [images.ensure(name) for name in ("operator", "router", "vllm")]
    cluster_tool("load", *(str(archive) for archive, _ in built))
    return Images(*(reference for _, reference in built))


def _image_names() -> list[str]:
    names = [f"WORKSLICE_{part}_IMAGE" for part in ("OPERATOR", "ROUTER", "ENGINE")]
    if missing := [name for name in names if not os.environ.get(name)]:
        raise ClusterError(
            "KUBECONFIG names a cluster that images cannot be loaded into: "
            f"set {', '.join(missing)} to images that it can pull, or unset KUBECONFIG to use the embedded cluster"
        )
    return [os.environ[name] for name in names]


def helm_install(cluster: Cluster, parts: Images, *options: str) -> None:
    """Install the chart or bring the release to the same state; returns when operator and router are ready."""
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
    """Return the URL (with /v1) at which the host reaches the routers: the ClusterIP of their Service.

    WORKSLICE_ENDPOINT names it where the host cannot reach ClusterIPs.
    """
    if named := os.environ.get("WORKSLICE_ENDPOINT"):
        return named
    spec = cluster.get("service", RELEASE, NAMESPACE)["spec"]
    port = spec["ports"][0]["port"]
    return f"http://{spec['clusterIP']}{'' if port == 80 else f':{port}'}/v1"


def answering_endpoint(cluster: Cluster) -> str:
    """Return the endpoint's URL once it answers: a ClusterIP may do so a second after the rollout is done."""
    url = endpoint_url(cluster)

    def answers() -> str:
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
