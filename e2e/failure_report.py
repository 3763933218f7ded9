"""What to read after a failed end-to-end test: pods, pools, events and the last log lines of every program."""

from demo.cluster_client import Cluster
from demo.installation import NAMESPACE

from workslice_cluster.cluster_error import ClusterError

LOG_LINES = "40"
ENGINES = "app.kubernetes.io/managed-by=workslice"


def failure_report(cluster: Cluster) -> str:
    """Return the state of the cluster as text; what cannot be read is said in its place."""
    parts = [
        _ask(cluster, "get", "wsprof,wspool,pods,deployments", "-A", "-o", "wide"),
        _ask(cluster, "get", "wspool", "-A", "-o", 'jsonpath={range .items[*]}{.metadata.name}: {.status}{"\\n"}{end}'),
        "\n".join(_ask(cluster, "get", "events", "-A", "--sort-by=.lastTimestamp").splitlines()[-40:]),
        _ask(
            cluster,
            "logs",
            "-n",
            NAMESPACE,
            "-l",
            "app.kubernetes.io/part-of=workslice",
            "--prefix",
            "--tail",
            LOG_LINES,
        ),
    ]
    for pod in _engine_pods(cluster):
        parts.append(_ask(cluster, "logs", "-n", *pod, "--tail", LOG_LINES))
    return "\n\n".join(parts)


def _engine_pods(cluster: Cluster) -> list[tuple[str, str]]:
    text = _ask(cluster, "get", "pods", "-A", "-l", ENGINES, "--no-headers")
    lines = (line.split() for line in text.splitlines()[1:])
    return [
        (words[0], words[1])
        for words in lines
        if len(words) > 3 and words[3] in ("Running", "Error", "CrashLoopBackOff")
    ]


def _ask(cluster: Cluster, *words: str) -> str:
    try:
        return f"$ kubectl {' '.join(words)}\n{cluster.kubectl(*words, seconds=20)}"
    except ClusterError as error:
        return f"$ kubectl {' '.join(words)}\n{error}"
