"""The annotation workslice.dev/paused keeps the operator's hands off, and what it held back is done afterwards."""

from demo.pool_state import condition
from demo.waiting import NotYet, wait_until

from scratch import Scratch


def test_a_paused_pool_stays_as_it_is_until_it_goes_on(scratch: Scratch) -> None:
    cluster, namespace = scratch.cluster, scratch.namespace
    scratch.profile()
    scratch.pool(replicas=0)
    scratch.pool("other", model=f"{namespace}-other", replicas=0)
    for pool in ("pool", "other"):
        scratch.wait_for("EnginesReady", "True", "ScaledToZero", pool=pool)

    cluster.kubectl("annotate", "wspool/pool", "-n", namespace, "workslice.dev/paused=true")
    message = scratch.wait_for("Paused", "True", "Paused")
    assert f"kubectl annotate wspool/pool -n {namespace} workslice.dev/paused-" in message
    scratch.wait_for_events("Paused: ")
    before = cluster.get("wspool", "pool", namespace)["status"]

    for pool in ("pool", "other"):
        cluster.kubectl("scale", f"wspool/{pool}", "-n", namespace, "--replicas=1")
        cluster.kubectl("delete", "service", f"{pool}-engine", "-n", namespace)
    # The operator heard of both; when it has done the one that came last, it has looked at the other.
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice", pool="other")
    _service_is_back(scratch, "other")
    assert cluster.find("service", "pool-engine", namespace) is None
    assert cluster.get("deployment", "pool-engine", namespace)["spec"]["replicas"] == 0
    assert cluster.get("wspool", "pool", namespace)["status"] == before

    cluster.kubectl("annotate", "wspool/pool", "-n", namespace, "workslice.dev/paused-")
    scratch.wait_for("SlicesGranted", "False", "NoFreeSlice")
    _service_is_back(scratch, "pool")
    assert condition(cluster.get("wspool", "pool", namespace), "Paused")["status"] == "absent"
    scratch.wait_for_events("Resumed: ")


def _service_is_back(scratch: Scratch, pool: str) -> None:
    def look() -> None:
        if scratch.cluster.find("service", f"{pool}-engine", scratch.namespace) is None:
            raise NotYet("the Service is not there")

    wait_until(f"the Service of {pool} to be made anew", look, seconds=30)
