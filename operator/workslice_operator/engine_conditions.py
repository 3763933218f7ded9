"""Whether a pool's engines answer, and if not, why: the condition EnginesReady."""

from datetime import datetime
from typing import Final

from workslice_api.names import Reason
from workslice_operator.finding import Finding
from workslice_operator.observed import Observed
from workslice_operator.pod_diagnosis import Diagnosis, diagnose
from workslice_operator.surge import is_surging

_WORST_FIRST: Final = (
    Reason.OUT_OF_MEMORY,
    Reason.ENGINE_FAILED,
    Reason.WARM_UP_FAILED,
    Reason.CRASH_LOOPING,
    Reason.MODEL_FETCH_FAILED,
    Reason.IMAGE_PULL_FAILED,
    Reason.VOLUME_FAILED,
    Reason.START_TIMED_OUT,
    Reason.NODE_LOST,
    Reason.NOT_ANSWERING,
)


def engines_ready(
    observed: Observed, desired: int, startup_timeout: float, now: datetime, asleep: bool = False
) -> Finding:
    """The condition, for `desired` replicas; `startup_timeout` in seconds; `asleep`: zero is what the scaler wants."""
    live = [pod for pod in observed.pods if pod.live]
    ready = sum(pod.ready for pod in live)
    if desired == 0:
        return _at_zero(observed, len(live), asleep)
    progress = f"{min(ready, desired)} of {desired} replicas ready"
    if ready < desired and observed.missing_volumes:
        claims = ", ".join(observed.missing_volumes)
        message = (
            f"{progress}; PersistentVolumeClaim {claims} of the profile's model does not exist: create it in the namespace "
            f"{observed.pool.metadata.namespace}"
        )
        return Finding(False, Reason.MODEL_VOLUME_MISSING, message)
    fault = _worst(observed, startup_timeout, now)
    if fault is not None:
        return Finding(False, fault.reason, f"{progress}; {fault.message}{_rollout(observed)}")
    refused = next((one.failure for one in observed.replica_sets if one.failure and one.replicas), "")
    if refused and len(live) < desired:
        return Finding(False, Reason.PODS_REFUSED, f"{progress}; {_refusal(refused)}")
    if ready >= desired:
        return Finding(True, Reason.ALL_READY, f"{progress}{_surge(observed)}")
    waiting = sum(not pod.scheduled for pod in live)
    for_slices = f", {waiting} without a slice" if waiting else ""
    others = "; the others start" if ready + waiting < desired else ""
    message = f"{progress}{for_slices}{others}"
    return Finding(ready >= _required(observed, desired), Reason.STARTING, message)


def _rollout(observed: Observed) -> str:
    outdated = observed.deployment.outdated_replicas if observed.deployment else 0
    still = f"{outdated} replica stays" if outdated == 1 else f"{outdated} replicas stay"
    return f"; until then {still} on the previous version" if outdated else ""


def _surge(observed: Observed) -> str:
    outdated = observed.deployment.outdated_replicas if is_surging(observed) and observed.deployment else 0
    return f"; {outdated} on the previous version until the new one is ready" if outdated else ""


def _required(observed: Observed, desired: int) -> int:
    # Replicas that demand adds above the minimum do not make a pool that serves look broken while they start.
    scaling = observed.pool.spec.scaling
    return min(desired, scaling.min_replicas or 1) if scaling.mode == "QueueDepth" else desired


def _at_zero(observed: Observed, live: int, asleep: bool) -> Finding:
    if observed.conflict is not None:
        return Finding(False, Reason.NOT_STARTED, "no engine runs while the pool is in Conflict")
    rest = f"; {live} still run" if live else ""
    if asleep:
        message = f"no request for {observed.pool.spec.scaling.scale_to_zero_after}{rest}; the next one wakes the pool"
        return Finding(True, Reason.SCALED_TO_ZERO, message)
    if observed.pool.spec.scaling.mode == "QueueDepth" or observed.pool.spec.replicas:
        return Finding(False, Reason.NOT_STARTED, "engines start as soon as ProfileReady is True")
    return Finding(True, Reason.SCALED_TO_ZERO, f"spec.replicas is 0{rest}; scale up with kubectl scale wspool")


def _worst(observed: Observed, startup_timeout: float, now: datetime) -> Diagnosis | None:
    namespace = observed.pool.metadata.namespace
    pods = sorted(observed.pods, key=lambda pod: pod.name)
    lost = observed.lost_nodes
    found = [one for one in (diagnose(pod, namespace, startup_timeout, now, lost) for pod in pods) if one is not None]
    return min(found, key=lambda one: _WORST_FIRST.index(one.reason), default=None)


def _refusal(failure: str) -> str:
    text = failure.strip()[:600]
    if "exceeded quota" in text:
        return f"a ResourceQuota refuses pods: {text}; raise the quota or lower the replicas"
    if "violates PodSecurity" in text:
        return f"Pod Security refuses pods: {text}; take what it names out of template of the pool, or relax the namespace's level"
    if "serviceaccount" in text and "not found" in text:
        return f"pods are refused: {text}; create the ServiceAccount or correct template.serviceAccountName"
    return f"pods are refused: {text}; correct what the message names"
