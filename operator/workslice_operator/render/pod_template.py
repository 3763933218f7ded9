"""The engine pod: one vLLM on one slice, locked down to the `restricted` Pod Security level.

Only fields whose documentation says "Rolls" may reach it: any change of the template replaces every replica.
"""

from typing import Any, Final

from workslice_api import names
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_operator.model_source import locate_model
from workslice_operator.render.engine_args import engine_args
from workslice_operator.render.engine_resources import engine_resources
from workslice_operator.render.identity import engine_selector
from workslice_operator.render.model_fetch import model_fetch
from workslice_operator.render.placement import merged_affinity
from workslice_operator.render.pre_stop import pre_stop
from workslice_operator.render.probes import engine_probes
from workslice_operator.render.termination import termination

_USER: Final = 65532
_TMP: Final = "workslice-tmp"
_SHM: Final = "workslice-shm"
_MODEL: Final = "workslice-model"
_VERSION_LABEL: Final = "app.kubernetes.io/version"


def pod_template(pool: WorkspacePool, profile: WorkspaceProfile) -> dict[str, Any]:
    """The Deployment's pod template."""
    template = pool.spec.template
    ending = termination(pool.spec.drain.timeout, profile.spec.engine.version)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": ending.grace_period,
        "initContainers": _model_fetch(pool, profile),
        "containers": [_engine(pool, profile, ending.pre_stop)],
        "volumes": _volumes(pool, profile),
        "affinity": merged_affinity(template.affinity, profile.spec.slice.products),
        "nodeSelector": dict(sorted(template.node_selector.items())),
        "tolerations": [one.to_wire() for one in template.tolerations],
        "imagePullSecrets": [one.to_wire() for one in template.image_pull_secrets],
        "priorityClassName": template.priority_class_name,
        "schedulerName": template.scheduler_name,
        "runtimeClassName": template.runtime_class_name,
        "serviceAccountName": template.service_account_name,
    }
    metadata = {
        "labels": {
            **template.labels,
            **engine_selector(pool),
            names.MANAGED_BY_LABEL: names.MANAGED_BY,
            names.PROFILE_LABEL: pool.spec.profile_ref.name,
            _VERSION_LABEL: profile.spec.engine.version.replace("+", "_"),
        },
        "annotations": dict(sorted(template.annotations.items())),
    }
    return {"metadata": _without_empty(metadata), "spec": _without_empty(spec)}


def _engine(pool: WorkspacePool, profile: WorkspaceProfile, notice: int) -> dict[str, Any]:
    return {
        "name": names.ENGINE_CONTAINER,
        "image": profile.spec.engine.image,
        "args": engine_args(pool, profile),
        "env": _environment(pool, profile, locate_model(profile.spec.model).hub),
        "ports": [{"name": names.ENGINE_PORT_NAME, "containerPort": names.ENGINE_PORT, "protocol": "TCP"}],
        **engine_probes(profile.spec.engine),
        "lifecycle": {"preStop": pre_stop(notice)},
        **_common(profile),
        "volumeMounts": _mounts(pool, profile),
    }


def _model_fetch(pool: WorkspacePool, profile: WorkspaceProfile) -> list[dict[str, Any]]:
    if not locate_model(profile.spec.model).cached:
        return []
    environment, mounts = _environment(pool, profile, downloads=True), _mounts(pool, profile)
    return [model_fetch(profile, environment, mounts, _common(profile))]


def _common(profile: WorkspaceProfile) -> dict[str, Any]:
    return {
        "resources": engine_resources(profile),
        # The end of vLLM's log is where it says what is wrong; the pool's conditions quote it.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _environment(pool: WorkspacePool, profile: WorkspaceProfile, downloads: bool) -> list[dict[str, Any]]:
    """Variables of a container; `downloads`: it may reach for the hub."""
    ours: dict[str, dict[str, Any]] = {
        # The user has no entry in the image's passwd file and the root file system is read-only: caches go to /tmp, and
        # libraries that ask for the user's name find one.
        "HOME": {"value": "/tmp"},
        "USER": {"value": "workslice"},
        "HF_HOME": {"value": "/tmp/huggingface"},
        "VLLM_NO_USAGE_STATS": {"value": "1"},
        "DO_NOT_TRACK": {"value": "1"},
    }
    if not downloads:
        ours["HF_HUB_OFFLINE"] = {"value": "1"}
    secret = pool.spec.template.model_secret_ref
    if secret is not None and (downloads or not locate_model(profile.spec.model).cached):
        ours["HF_TOKEN"] = {"valueFrom": {"secretKeyRef": secret.to_wire()}}
    theirs = {one.name: {"value": one.value} for one in profile.spec.engine.env}
    return [{"name": name, **source} for name, source in {**ours, **theirs}.items()]


def _volumes(pool: WorkspacePool, profile: WorkspaceProfile) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": _TMP, "emptyDir": {}},
        {"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ]
    location = locate_model(profile.spec.model)
    if location.claim is not None:
        read_only = {} if location.cached else {"readOnly": True}
        volumes.append({"name": _MODEL, "persistentVolumeClaim": {"claimName": location.claim, **read_only}})
    return [*volumes, *pool.spec.template.volumes]


def _mounts(pool: WorkspacePool, profile: WorkspaceProfile) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": _TMP, "mountPath": "/tmp"},
        {"name": _SHM, "mountPath": "/dev/shm"},
    ]
    location = locate_model(profile.spec.model)
    if location.claim is not None:
        mounts.append({"name": _MODEL, "mountPath": location.mount, "readOnly": True})
    return [*mounts, *pool.spec.template.volume_mounts]


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}
