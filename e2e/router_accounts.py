"""What every router says it has running and waiting; after a test all of it must be back to exactly zero."""

from collections.abc import Iterator
from typing import Any

import httpx
from demo.cluster_client import Cluster
from demo.installation import NAMESPACE
from demo.waiting import NotYet, wait_until

from workslice_api.names import ROUTER_ADMIN_PORT

ROUTERS = "app.kubernetes.io/component=router"


def router_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The routers' pods that are not on their way out."""
    pods = cluster.objects("pods", NAMESPACE, ROUTERS)
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def router_addresses(cluster: Cluster) -> dict[str, str]:
    """The address of every router, by pod."""
    return {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in router_pods(cluster)}


def router_states(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The document at /state of every router, by pod. Raises NotYet when one does not answer."""
    return states_at(router_addresses(cluster))


def states_at(addresses: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The same of routers that are known already: for looks that shall take milliseconds. Raises NotYet."""
    states = {}
    with httpx.Client(timeout=3, trust_env=False, verify=False) as client:  # no certificates to read
        for name, host in addresses.items():
            try:
                states[name] = client.get(f"http://{host}:{ROUTER_ADMIN_PORT}/state").json()
            except httpx.HTTPError as error:
                raise NotYet(f"{name}: {error}") from error
    return states


def in_rotation(cluster: Cluster, pool: str) -> set[str]:
    """UIDs of the replicas of a pool (namespace/name) to which every router sends requests. Raises NotYet."""
    return set.intersection(*rotations(router_states(cluster), pool))


def rotations(states: dict[str, dict[str, Any]], pool: str) -> list[set[str]]:
    """UIDs of the replicas of a pool (namespace/name) to which each of the routers sends requests."""
    found = []
    for state in states.values():
        replicas = state["pools"].get(pool, {"replicas": []})["replicas"]
        found.append({r["uid"] for r in replicas if r["ready"] and not r["ejected"] and not r["draining"]})
    return found


def wait_until_running(cluster: Cluster, pool: str, count: int) -> None:
    """Wait until the routers have that many requests of a pool (namespace/name) running.

    A pool's status shows queue numbers every 30 s only, which a short stream may not last.
    """

    def runs() -> None:
        running = sum(state["pools"].get(pool, {"running": 0})["running"] for state in router_states(cluster).values())
        if running != count:
            raise NotYet(f"running: {running}")

    wait_until(f"{count} requests of {pool} to run", runs, seconds=60, every=0.2)


def wait_until_accounts_are_zero(cluster: Cluster) -> None:
    """Wait until no router counts a request or a token as running or waiting, in any pool, on any replica."""

    def zero() -> None:
        states = router_states(cluster)
        left = [line for name, state in states.items() for line in _left(name, state)]
        if left or not states:
            raise NotYet("; ".join(left) or "no router")

    wait_until("every account of every router to be zero", zero, seconds=30)


def _left(router: str, state: dict[str, Any]) -> Iterator[str]:
    for pool, numbers in state["pools"].items():
        sums = {key: numbers[key] for key in ("queued", "running", "queuedTokens")}
        for key in ("inFlight", "outstandingTokens"):
            sums[key] = sum(abs(replica[key]) for replica in numbers["replicas"])
        if any(sums.values()):
            yield f"{router} {pool}: {sums}"
