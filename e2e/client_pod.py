"""Runs a Python script with the openai package in a pod, as an application in the cluster would."""

import sysconfig

from demo.cluster_client import Cluster
from demo.waiting import NotYet, wait_until

from workslice_cluster.cluster_error import ClusterError

NAMESPACE = "e2e-client"


def run_in_pod(cluster: Cluster, image: str, script: str, *arguments: str) -> str:
    """Run the script in a pod of an image that has Python 3.11 and return what it prints.

    The packages are those of this very environment, mounted from the host: the embedded cluster's node sees them. Raises
    ClusterError with the pod's output when the script fails.
    """
    packages = sysconfig.get_path("purelib")
    cluster.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    cluster.kubectl("delete", "pod", "client", "-n", NAMESPACE, "--ignore-not-found", "--grace-period=0", "--force")
    container = {
        "name": "client",
        "image": image,
        "command": ["python3", "-c", script, *arguments],
        "env": [{"name": "PYTHONPATH", "value": "/packages"}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "volumeMounts": [{"name": "packages", "mountPath": "/packages", "readOnly": True}],
    }
    volume = {"name": "packages", "hostPath": {"path": packages, "type": "Directory"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    cluster.apply(
        [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": NAMESPACE}, "spec": spec}]
    )

    def ended() -> str:
        phase = str(cluster.get("pod", "client", NAMESPACE)["status"].get("phase"))
        if phase not in ("Succeeded", "Failed"):
            raise NotYet(f"the pod is {phase}")
        return phase

    phase = wait_until("the client pod to end", ended, seconds=90)
    said = cluster.kubectl("logs", "client", "-n", NAMESPACE).strip()
    cluster.kubectl("delete", "pod", "client", "-n", NAMESPACE, "--wait=false")
    if phase == "Failed":
        raise ClusterError(f"the script in the pod failed:\n{said}")
    return said
