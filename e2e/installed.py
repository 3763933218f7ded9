"""Workslice as it is installed for the end-to-end tests."""

import atexit
from dataclasses import dataclass
from functools import cache

from demo.cluster_client import Cluster
from demo.installation import Images, answering_endpoint, endpoint_url, helm_install, openai_client, provide_images
from openai import OpenAI

from workslice_cluster.repository import repository

MODEL = "tiny"
"""The model that the pools of the examples serve."""
SPARE_NODE = "spare"
"""Name of the second node that the fixture `spare_node` adds."""


@dataclass(frozen=True)
class Installation:
    """One release of the chart on a cluster, and how to reach it."""

    cluster: Cluster
    images: Images

    @property
    def url(self) -> str:
        """The endpoint as the host reaches it, with /v1; looked up each time, since a new release gets a new address."""
        return endpoint_url(self.cluster)

    @property
    def origin(self) -> str:
        """The endpoint without /v1."""
        return self.url.removesuffix("/v1")

    def client(self, api_key: str = "none") -> OpenAI:
        """Return an openai client that does not retry."""
        return _client(self.url, api_key)


def install(cluster: Cluster, images: Images | None = None) -> Installation:
    """CRDs by kubectl, then the chart; returns when operator and router are ready and the endpoint answers."""
    built = images or provide_images(cluster)
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(repository() / "crds"))
    helm_install(cluster, built)
    answering_endpoint(cluster)
    return Installation(cluster, built)


@cache
def _client(url: str, api_key: str) -> OpenAI:
    """One client for all tests: its connections stay open between them, as those of an application do."""
    made = openai_client(url, api_key)
    atexit.register(made.close)
    return made
