"""Starts the engines of a comparison as pools on the cluster, gives each a core of its own, and takes them away again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demo.cluster_client import Cluster
from demo.pool_state import ready_pools
from demo.waiting import NotYet, wait_until
from engine_cgroup import EngineCgroup, cgroup_of_engine
from rows import ENGINES, MODEL, Engines, Pool

import manifests
from workslice_api.names import COMPONENT_LABEL, ENGINE_COMPONENT
from workslice_cluster.cluster_error import ClusterError

NAMESPACE = "bench-real"
SLICE = "1g.10gb"
PLACES = 16
"""Requests that an engine runs at the same time."""
_ENGINE_PODS = f"{COMPONENT_LABEL}={ENGINE_COMPONENT}"


@dataclass(frozen=True)
class RunningEngine:
    """One engine that is ready and pinned."""

    pool: str
    uid: str
    address: str
    cgroup: EngineCgroup


def make_room(cluster: Cluster, models: Path) -> None:
    """Make the bench's namespace. Raises ClusterError while engines of others run: they would take turns on the same cores."""
    if others := {pod["metadata"]["namespace"] for pod in cluster.objects("pods", selector=_ENGINE_PODS)} - {NAMESPACE}:
        raise ClusterError(
            f"engines run in {', '.join(sorted(others))} and would disturb the measurement: delete their pools, or start anew with "
            "`make cluster-down`"
        )
    cluster.apply([manifests.namespace(NAMESPACE), *manifests.model_volume(NAMESPACE, models)])
    _delete_pools(cluster)


def leave(cluster: Cluster) -> None:
    """Delete all that the bench made; the cluster stays up."""
    _delete_pools(cluster)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=100s", seconds=110)
    cluster.kubectl("delete", "pv", f"{NAMESPACE}-models", "--ignore-not-found", "--timeout=50s")


@contextmanager
def running(cluster: Cluster, image: str, engines: Engines) -> Iterator[list[RunningEngine]]:
    """The engines, from when all of them answer."""
    objects = [one for pool in engines.pools for one in _objects(engines, pool, image)]
    names = [f"{engines.name}-{pool.name}" for pool in engines.pools]
    cluster.apply(objects)
    try:
        wait_until(
            f"the pools {', '.join(names)} to be Ready",
            lambda: ready_pools(cluster, NAMESPACE, *names),
            seconds=400,
            every=2,
        )
        yield _pinned(cluster)
    finally:
        _delete_pools(cluster)
        for name in names:
            cluster.kubectl("delete", "wsprof", f"{NAMESPACE}-{name}", "--ignore-not-found")


def _objects(engines: Engines, pool: Pool, image: str) -> list[dict[str, Any]]:
    name = f"{engines.name}-{pool.name}"
    profile = manifests.profile(
        f"{NAMESPACE}-{name}",
        image,
        slice_profile=SLICE,
        model_path=MODEL,
        memory={"host": "4Gi", "kvCache": f"{pool.kv_mebibytes}Mi"},
        workspace={"maxTokens": pool.context, "maxConcurrent": PLACES},
        engine=manifests.engine(image)
        | {"batchedTokens": pool.batched_tokens, "longPrefillTokenThreshold": pool.long_prefill_threshold},
    )
    return [profile, manifests.pool(name, NAMESPACE, f"{NAMESPACE}-{name}", MODEL, **pool.spec())]


def _pinned(cluster: Cluster) -> list[RunningEngine]:
    cores = sorted(os.sched_getaffinity(0))[:ENGINES]
    if len(cores) < ENGINES:
        raise ClusterError(
            f"the bench needs {ENGINES} cores, one for each engine; this machine lets it use {len(cores)}"
        )
    pods = sorted(cluster.objects("pods", NAMESPACE, _ENGINE_PODS), key=lambda pod: str(pod["metadata"]["name"]))
    if len(pods) != ENGINES:
        raise ClusterError(f"{len(pods)} engines run, not {ENGINES}")
    engines = []
    for pod, core in zip(pods, cores, strict=True):
        uid = str(pod["metadata"]["uid"])
        cgroup = cgroup_of_engine(uid)
        cgroup.pin(core)
        pool = str(pod["metadata"]["labels"]["workslice.dev/pool"])
        engines.append(RunningEngine(pool, uid, str(pod["status"]["podIP"]), cgroup))
    return engines


def _delete_pools(cluster: Cluster) -> None:
    cluster.kubectl("delete", "wspool", "--all", "-n", NAMESPACE, "--ignore-not-found")

    def no_pods() -> None:
        if left := cluster.objects("pods", NAMESPACE, _ENGINE_PODS):
            raise NotYet(f"{len(left)} pods are left")

    wait_until(f"the pods of {NAMESPACE} to go", no_pods, seconds=150)
