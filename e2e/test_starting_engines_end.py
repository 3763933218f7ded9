"""An engine that is told to end while it starts gives its slice back within seconds, at whatever moment that is."""

import time
from typing import Any

import pytest
from demo.waiting import NotYet, wait_until

from scratch import Scratch
from workslice_cluster.cluster_error import ClusterError

GONE_SECONDS = 30
"""Its grace period is ten times as long. Where no test takes the cores from it, it needs a few seconds."""
DRAIN = {"timeout": "300s"}
"""What the engine would be given, if it served somebody."""
ITS_OWN: list[str] = []
VLLM_SERVE = ["python", "-m", "vllm.entrypoints.cli.main", "serve"]
"""As in vLLM's own image: no init before it, so that the kernel drops every signal that it has no handler for."""
SAYS = {
    "it imports": "",
    "its core starts": "Initializing a V1 LLM engine",
    "its server starts": "Starting vLLM server",
}


@pytest.fixture(scope="module")
def template(module_scratch: Scratch) -> dict[str, Any]:
    """The pods of a pool that has none now."""
    module_scratch.profile(slice_profile="1g.10gb")
    module_scratch.pool(model="starting", replicas=0, drain=DRAIN)

    def rendered() -> dict[str, Any]:
        (found,) = module_scratch.cluster.objects("deployments", module_scratch.namespace) or [None]
        if found is None:
            raise NotYet("no Deployment")
        spec: dict[str, Any] = found["spec"]["template"]["spec"]
        return spec

    return wait_until("the pool's Deployment", rendered, seconds=30, every=0.3)


def start(scratch: Scratch, template: dict[str, Any], name: str, entry: list[str], line: str) -> None:
    """Start a pod, and return when its engine runs and has said the line."""
    (engine,) = template["containers"]
    metadata = {"name": name, "namespace": scratch.namespace}
    spec = template | {"containers": [engine | ({"command": entry} if entry else {})], "restartPolicy": "Never"}
    scratch.cluster.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}])

    def said() -> None:
        status = scratch.cluster.get("pod", name, scratch.namespace)["status"]
        state = next((one["state"] for one in status.get("containerStatuses", ())), {})
        if "running" not in state:
            raise NotYet(f"{state or status['phase']}")
        if line and line not in (log := scratch.cluster.kubectl("logs", name, "-n", scratch.namespace)):
            raise NotYet(log[-300:])

    wait_until(f"the engine to say {line!r}", said, seconds=240, every=0.2)


def last_line(scratch: Scratch, name: str) -> str:
    try:
        return scratch.cluster.kubectl("logs", name, "-n", scratch.namespace, "--tail=1")
    except ClusterError as error:
        return str(error)


@pytest.mark.parametrize(
    ("entry", "moment"),
    [
        (ITS_OWN, "its core starts"),
        *[
            pytest.param(entry, moment, marks=pytest.mark.soak)
            for entry, moment in [
                (ITS_OWN, "it imports"),
                (ITS_OWN, "its server starts"),
                *((VLLM_SERVE, moment) for moment in SAYS),
            ]
        ],
    ],
    ids=lambda value: value if isinstance(value, str) else "vllm serve" if value else "the image's entry",
)
def test_an_engine_that_is_told_to_end_while_it_starts_is_gone_within_seconds(
    module_scratch: Scratch,
    template: dict[str, Any],
    entry: list[str],
    moment: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster, namespace = module_scratch.cluster, module_scratch.namespace
    name = moment.replace(" ", "-") + ("-serve" if entry else "")
    try:
        start(module_scratch, template, name, entry, SAYS[moment])
        cluster.kubectl("delete", "pod", name, "-n", namespace, "--wait=false")
        told = time.monotonic()
        pod = cluster.find("pod", name, namespace)
        assert pod is not None
        assert pod["metadata"]["deletionGracePeriodSeconds"] > 300

        def gone() -> float:
            if cluster.find("pod", name, namespace) is not None:
                raise NotYet(last_line(module_scratch, name))
            return time.monotonic() - told

        seconds = wait_until("the pod to be gone", gone, seconds=GONE_SECONDS, every=0.2)
    finally:  # a slice of the cluster's few
        cluster.kubectl(
            "delete", "pod", name, "-n", namespace, "--ignore-not-found", "--grace-period=1", "--wait=false"
        )
    with capsys.disabled():
        print(f"gone {seconds:.1f} s after it was told to end")
    events = [one["reason"] for one in cluster.objects("events", namespace) if one["involvedObject"]["name"] == name]
    assert "Killing" in events
    assert "FailedPreStopHook" not in events
