"""The demonstration behind `make demo`: cluster, chart, two pools, questions, a burst. Run it again to go on where it failed.

CLUSTER chooses the cluster (demo/cluster_choice.py); DEMO_MODEL the model: `tiny` (random weights, made on the spot; the default)
or `smollm2` (real text).
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from urllib.parse import urlsplit

import openai

from demo.cluster_choice import ClusterChoice, cluster_choice
from demo.cluster_client import Cluster
from demo.example_manifests import NAMESPACE, apply_examples, example_manifests
from demo.installation import NAMESPACE as SYSTEM
from demo.installation import (
    RELEASE,
    answering_endpoint,
    demo_slices,
    helm_install,
    is_forwarded,
    models_directory,
    openai_client,
    provide_images,
    start_cluster,
)
from demo.load import Load
from demo.pool_state import describe, ready_pools
from demo.port_forward import end_forwards_on_termination
from demo.question import LONG_QUESTION, SHORT_QUESTION, Answer, ask, table
from demo.waiting import NotYet, wait_until
from workslice_cluster import models
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.progress import say, step

_HOW_IT_ENDS = {
    ClusterChoice.EMBEDDED: "Stop and remove the cluster",
    ClusterChoice.KIND: "Delete the cluster",
    ClusterChoice.KUBECONFIG: "Remove the two pools and Workslice from the cluster",
}


def main() -> int:
    """Run all steps and return the exit status."""
    model = os.environ.get("DEMO_MODEL") or "tiny"
    if model not in models.NAMES:
        choices = " or ".join(f"`DEMO_MODEL={name} make demo`" for name in models.NAMES)
        print(f"There is no model {model!r} for the demo, so nothing was started: run {choices}.", file=sys.stderr)
        return 2
    try:
        _demonstrate(model)
    except (ClusterError, openai.OpenAIError) as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        print("Put that right and run `make demo` again: it goes on from what is already there.", file=sys.stderr)
        print(
            "`make demo-down` removes what it started; docs/troubleshooting.md explains the reasons of conditions.",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print("\nStopped. `make demo` goes on from here, `make demo-down` removes what it started.", file=sys.stderr)
        return 130
    return 0


def _demonstrate(model: str) -> None:
    with step("1/8 the cluster"):
        cluster = start_cluster()
    with step("2/8 the images and the model"):
        folder = models_directory(model)
        parts = provide_images(cluster)
        slices = demo_slices(cluster)
        say(f"  the pools take the slices {' and '.join(slices)}")
    with step("3/8 the chart: operator and router"):
        helm_install(cluster, parts)
    with step(f"4/8 the examples: two pools that serve the model {model}"):
        apply_examples(
            cluster,
            example_manifests(parts.engine, folder, model, slices),
            model,
            tell=lambda text: say(f"  {text}"),
        )
    with step("5/8 the engines start"):
        wait_until(
            "both pools to be Ready",
            lambda: ready_pools(cluster, NAMESPACE, "short", "long"),
            seconds=600,
            every=2,
            tell=lambda text: say(f"  {text}"),
        )
    url = answering_endpoint(cluster)
    with step(f"6/8 questions to {url}"):
        _ask_questions(cluster, url, model)
    with step("7/8 a burst: the short pool grows to two replicas, then shrinks"):
        _burst(cluster, url, model)
    with step("8/8 what there is now"):
        _summary(cluster, url, model)


def _ask_questions(cluster: Cluster, url: str, model: str) -> None:
    client = openai_client(url)
    rows: list[tuple[str, Answer]] = []
    for title, question, tokens in (("short", SHORT_QUESTION, 48), ("long", LONG_QUESTION, 96)):
        for stream in (False, True):
            say(f"  a {title} question, {'streaming' if stream else 'in one piece'}")
            rows.append((title, ask(client, model, question, stream=stream, max_tokens=tokens, temperature=0)))
    pods = {p["metadata"]["uid"]: str(p["metadata"]["name"]) for p in cluster.objects("pods", NAMESPACE)}
    print(table([(title, replace(a, replica=pods.get(a.replica, a.replica))) for title, a in rows]), flush=True)
    for title, answer in rows:
        wanted = f"{NAMESPACE}/{title}"
        if answer.pool != wanted:
            raise ClusterError(
                f"the {title} question went to {answer.pool}, not to {wanted}: see `kubectl get wspool -A`"
            )
    if model != "tiny":
        print(f"  {SHORT_QUESTION} {rows[0][1].text.strip()}", flush=True)


def _burst(cluster: Cluster, url: str, model: str) -> None:
    def replicas(wanted: int) -> str:
        pool = cluster.get("workspacepool", "short", NAMESPACE)
        status = pool["status"]
        if not (status.get("desiredReplicas") == status.get("readyReplicas") == status.get("replicas") == wanted):
            raise NotYet(describe(pool))
        return describe(pool)

    def tell(text: str) -> None:
        say(f"  {len(load.answers)} answers, {len(load.failures)} failures | {text}")

    with Load(openai_client(url), model, in_flight=8, most=8) as load:
        say("  8 questions at a time")
        say("  " + wait_until("two ready replicas", lambda: replicas(2), seconds=300, tell=tell))
        load.in_flight = 1
        say("  one question at a time")
        say("  " + wait_until("one replica", lambda: replicas(1), seconds=180, tell=tell))
    say(f"  {len(load.answers)} answers, {len(load.failures)} failures")
    if load.failures:
        raise ClusterError(f"{len(load.failures)} requests failed, the first with: {load.failures[0].error}")


def _summary(cluster: Cluster, url: str, model: str) -> None:
    print(cluster.kubectl("get", "wsprof,wspool,pods", "-n", NAMESPACE))
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": SHORT_QUESTION}], "max_tokens": 32})
    call = f"curl --noproxy '*' -sS {url}/chat/completions -H 'content-type: application/json' -d '{body}'"
    if shutil.which("curl"):
        done = subprocess.run(["bash", "-c", f"{call} --fail"], capture_output=True, text=True, check=False, timeout=60)
        if done.returncode != 0:
            raise ClusterError(f"this line failed: {call}\n{done.stderr}{done.stdout}")
    if is_forwarded():
        forward = (
            f"--kubeconfig={cluster.kubeconfig} port-forward -n {SYSTEM} service/{RELEASE} {urlsplit(url).port}:80"
        )
        print(f"Lead a port of this machine to it:\n  {cluster.kubectl_program} {forward}\n")
    print(f"Call the endpoint from this machine:\n  {call}\n")
    print(f"Or with the openai client: OpenAI(base_url={url!r}, api_key='none')\n")
    print(f"Look around:\n  export KUBECONFIG={cluster.kubeconfig}\n  {cluster.kubectl_program} get wspool -A\n")
    choice = cluster_choice()
    named = "" if choice is ClusterChoice.EMBEDDED else f" CLUSTER={choice}"
    print(f"{_HOW_IT_ENDS[choice]}:\n  make demo-down{named}", flush=True)


if __name__ == "__main__":
    end_forwards_on_termination()
    sys.exit(main())
