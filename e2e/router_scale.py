"""How many routers there are."""

from demo.cluster_client import Cluster
from demo.installation import NAMESPACE
from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

from router_accounts import ROUTERS, router_pods, router_states

DEPLOYMENT = "deployment/workslice-router"


def scale_routers(cluster: Cluster, count: int) -> None:
    """Ask for that many routers and wait until they are there."""
    cluster.kubectl("scale", DEPLOYMENT, "-n", NAMESPACE, f"--replicas={count}")
    wait_for_routers(cluster, count)


def wait_for_routers(cluster: Cluster, count: int) -> None:
    """Wait until exactly that many routers are ready and know the pools; those on their way out do not count."""

    def as_many() -> None:
        found = router_pods(cluster)
        ready = [pod for pod in found if condition(pod, "Ready")["status"] == "True"]
        if not (len(found) == len(ready) == count):
            raise NotYet(f"{len(ready)} of {len(found)} routers are ready")
        if not all(state["synced"] for state in router_states(cluster).values()):
            raise NotYet("a router does not know the pools yet")

    wait_until(f"{count} routers to be ready", as_many, seconds=90)


def one_router_again(cluster: Cluster) -> None:
    """Ask for one router and wait until the others are gone: those on their way out still take requests for a moment, and a test that
    counts what runs would not find them.
    """
    scale_routers(cluster, 1)

    def alone() -> None:
        found = [pod["metadata"]["name"] for pod in cluster.objects("pods", NAMESPACE, ROUTERS)]
        if len(found) != 1:
            raise NotYet(f"routers: {found}")

    wait_until("the other routers to go", alone, seconds=150)
