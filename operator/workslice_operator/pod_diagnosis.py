"""What is wrong with one engine pod that has its slice, as a reason and a sentence that says what to do next."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from workslice_api.names import ENGINE_CONTAINER, MODEL_FETCH_CONTAINER, Reason
from workslice_operator.engine_death import core_death, was_told_to_end
from workslice_operator.fetch_failure import fetch_failure
from workslice_operator.last_words import advice_on, last_words, shortened
from workslice_operator.observed import UNHEALTHY, ContainerExit, Obstacle, PodFacts

_PULL: Final = ("ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError")
_CREATE: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
_VOLUME: Final = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_VOLUME_ADVICE: Final = (
    (
        "Multi-Attach",
        "the volume can be attached to one node at a time: take one with access mode ReadOnlyMany or ReadWriteMany",
    ),
    ("not found", "create what it names, or correct template.volumes of the pool"),
    (
        "hostPath type check failed",
        "make that folder on the node, or correct the PersistentVolume or template.volumes of the pool",
    ),
)
_PROBE_SLACK: Final = 60.0
"""Seconds by which a container that its startup probe killed may outlive the timeout."""


@dataclass(frozen=True)
class Diagnosis:
    """One finding about a pod."""

    reason: Reason
    message: str


def diagnose(
    pod: PodFacts, namespace: str, startup_timeout: float, now: datetime, lost_nodes: Collection[str] = ()
) -> Diagnosis | None:
    """The fault of a live pod that the scheduler has placed; None when there is none. `startup_timeout` in seconds."""
    if pod.ready or not pod.live or pod.scheduled_at is None:
        return None
    if pod.node in lost_nodes:  # first: what else its status says is old
        return Diagnosis(
            Reason.NODE_LOST,
            f"{pod.name} is on node {pod.node}, which is not Ready or gone: see kubectl describe node {pod.node}; the replica "
            "comes back with the node, or starts elsewhere when the node is deleted or has been lost for as long as pods tolerate "
            "it (five minutes unless the cluster says otherwise)",
        )
    if pod.waiting_reason in _PULL:
        return Diagnosis(
            Reason.IMAGE_PULL_FAILED,
            f"{pod.name} cannot pull its image: {_first_line(pod.waiting_message) or pod.waiting_reason}; check engine.image of "
            "the profile, and template.imagePullSecrets of the pool if the registry wants a login",
        )
    if pod.waiting_reason in _CREATE:
        return Diagnosis(
            Reason.ENGINE_FAILED,
            f"the container of {pod.name} cannot be made: {_first_line(pod.waiting_message) or pod.waiting_reason}; create what "
            "it names, or correct template of the pool",
        )
    if pod.obstacle is not None:
        return _obstacle(pod, pod.obstacle, namespace)
    if pod.fetch is not None and pod.fetch.failure:
        return Diagnosis(Reason.MODEL_FETCH_FAILED, fetch_failure(pod.name, namespace, pod.fetch.failure))
    if pod.silent:  # before the exit of a container that is long replaced
        return Diagnosis(
            Reason.NOT_ANSWERING,
            f"{pod.name} was ready and no longer answers /health: it is overloaded or hung; {_logs(pod, namespace)}",
        )
    if pod.last_exit is not None:
        return _exit_diagnosis(pod, pod.last_exit, namespace, startup_timeout)
    if (now - pod.scheduled_at).total_seconds() >= startup_timeout:
        return _timed_out(pod, namespace, startup_timeout)
    return None


def _obstacle(pod: PodFacts, found: Obstacle, namespace: str) -> Diagnosis:
    said = _first_line(found.message)
    if found.reason == UNHEALTHY:
        return Diagnosis(
            Reason.WARM_UP_FAILED,
            f"{pod.name} was not warmed up: {said}; correct engine.warmup of the profile, or take it out; "
            f"{_logs(pod, namespace, previous=True)}",
        )
    describe = f"see kubectl -n {namespace} describe pod {pod.name}"
    if found.reason not in _VOLUME:
        return Diagnosis(
            Reason.ENGINE_FAILED,
            f"node {pod.node} cannot make the sandbox of {pod.name}: {said}; repair the node, {describe}",
        )
    advice = next((advice for words, advice in _VOLUME_ADVICE if words in found.message), describe)
    return Diagnosis(Reason.VOLUME_FAILED, f"a volume of {pod.name} cannot be mounted: {said}; {advice}")


def _exit_diagnosis(pod: PodFacts, ended: ContainerExit, namespace: str, startup_timeout: float) -> Diagnosis:
    if ended.reason == "OOMKilled":
        return Diagnosis(
            Reason.OUT_OF_MEMORY,
            f"{pod.name} was killed because it used more host memory than its limit of {pod.memory_limit or 'none'}: raise "
            "memory.host of the profile, or lower memory.kvCache if the engine keeps its cache in host memory",
        )
    if _killed_by_startup_probe(ended, startup_timeout):
        return _timed_out(pod, namespace, startup_timeout)
    died = core_death(ended.message)
    if died is not None:
        return _core_died(pod, died, namespace)
    if ended.exit_code == 0:
        return _ended_itself(pod, ended, namespace)
    said = last_words(ended.message)
    if said.advice:
        return Diagnosis(Reason.ENGINE_FAILED, f"{pod.name} ended: {said.line}; {said.advice}")
    line = f": {said.line}" if said.line else ""
    return Diagnosis(
        Reason.CRASH_LOOPING,
        f"{pod.name} ended with exit code {ended.exit_code}{line}; {_logs(pod, namespace, previous=True)}",
    )


def _core_died(pod: PodFacts, cause: str, namespace: str) -> Diagnosis:
    logs = _logs(pod, namespace, previous=True)
    if not cause:
        return Diagnosis(
            Reason.CRASH_LOOPING,
            f"the EngineCore process of {pod.name} was killed or crashed without a word, and its API server ended after it; if nobody "
            f"killed it, the kernel's log of node {pod.node} names a lack of memory or a fault of the GPU; {logs}",
        )
    advice = advice_on(cause)
    return Diagnosis(
        Reason.ENGINE_FAILED if advice else Reason.CRASH_LOOPING,
        f"the EngineCore process of {pod.name} died: {shortened(cause)}; {advice or logs}",
    )


def _ended_itself(pod: PodFacts, ended: ContainerExit, namespace: str) -> Diagnosis:
    why = "which vLLM does when its EngineCore process has died, or when it is told to end"
    if was_told_to_end(ended.message):
        why = "since it was told to: its liveness probe failed because it no longer answered /health, or somebody stopped it"
    return Diagnosis(
        Reason.CRASH_LOOPING, f"{pod.name} ended with exit code 0, {why}; {_logs(pod, namespace, previous=True)}"
    )


def _killed_by_startup_probe(ended: ContainerExit, startup_timeout: float) -> bool:
    # A server whose core the preStop hook has killed complains only that it is gone.
    stopped = ended.was_stopped or last_words(ended.message).generic
    if not stopped or ended.started_at is None or ended.finished_at is None:
        return False
    lived = (ended.finished_at - ended.started_at).total_seconds()
    return startup_timeout - 5 <= lived <= startup_timeout + _PROBE_SLACK


def _timed_out(pod: PodFacts, namespace: str, startup_timeout: float) -> Diagnosis:
    if pod.fetch is not None and not pod.fetch.done:
        return Diagnosis(
            Reason.START_TIMED_OUT,
            f"{pod.name} has been fetching its model for more than {startup_timeout:g} s and goes on: raise engine.startupTimeout of the "
            f"profile if it may take longer, else see kubectl -n {namespace} logs {pod.name} -c {MODEL_FETCH_CONTAINER}",
        )
    return Diagnosis(
        Reason.START_TIMED_OUT,
        f"{pod.name} did not answer /health within {startup_timeout:g} s: raise engine.startupTimeout of the profile if the model "
        f"only loads slowly, else {_logs(pod, namespace)}",
    )


def _logs(pod: PodFacts, namespace: str, previous: bool = False) -> str:
    return f"see kubectl -n {namespace} logs {pod.name} -c {ENGINE_CONTAINER}{' --previous' if previous else ''}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:300]
