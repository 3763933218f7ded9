"""The whitelist of pod fields that a pool may set on its engine pods; everything else of the pod is Workslice's."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from workslice_api.base import KubeModel

LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(max_length=63)]
RESERVED_LABEL_RULE: Final = {
    "rule": "self.all(k, !k.startsWith('workslice.dev/') && !k.startsWith('app.kubernetes.io/'))",
    "message": "labels with the prefixes workslice.dev/ and app.kubernetes.io/ belong to Workslice: choose another prefix",
}
_DEEPEST: Final = 32
"""Levels; those of a pod's affinity and volumes are fewer than 10."""


def _not_too_deep(value: dict[str, Any]) -> dict[str, Any]:
    inner: list[Any] = [value]
    for _ in range(_DEEPEST):
        lists = (one.values() if isinstance(one, dict) else one for one in inner if isinstance(one, dict | list))
        inner = [one for many in lists for one in many]
    if inner:
        raise ValueError(f"nested deeper than {_DEEPEST} levels, as no field of a pod is")
    return value


FreeForm = Annotated[
    dict[str, Any],
    AfterValidator(_not_too_deep),
    Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True, "additionalProperties": None}),
]


class Toleration(KubeModel):
    """A toleration, as in a pod."""

    key: Annotated[str | None, Field(max_length=317)] = None
    """Taint key; unset with operator Exists tolerates every key."""
    operator: Literal["Exists", "Equal"] | None = None
    """Exists or Equal (default)."""
    value: Annotated[str | None, Field(max_length=63)] = None
    """Taint value for operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect; unset tolerates every effect."""
    toleration_seconds: Annotated[int | None, Field(ge=0, le=31_536_000)] = None
    """How long NoExecute is tolerated."""


class LocalReference(KubeModel):
    """Names an object in the pool's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the object."""


class SecretKeyReference(KubeModel):
    """Names a key of a Secret in the pool's namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the Secret."""
    key: Annotated[str, Field(min_length=1, max_length=253)] = "token"
    """Key inside it."""


class PodTemplate(KubeModel):
    """What the engine pods need of this cluster. Rolls: replaces the engine pods."""

    tolerations: Annotated[
        list[Toleration], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = []
    """Taints that the engine pods tolerate. Rolls: replaces the engine pods."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Node labels that the engine pods need. Rolls: replaces the engine pods."""
    affinity: FreeForm | None = None
    """Affinity, as in a pod. Rolls: replaces the engine pods."""
    priority_class_name: Annotated[str | None, Field(max_length=253)] = None
    """PriorityClass of the engine pods. Rolls: replaces the engine pods."""
    scheduler_name: Annotated[str | None, Field(max_length=253)] = None
    """Scheduler of the engine pods. Rolls: replaces the engine pods."""
    runtime_class_name: Annotated[str | None, Field(max_length=253)] = None
    """RuntimeClass of the engine pods (nvidia on many clusters). Rolls: replaces the engine pods."""
    image_pull_secrets: Annotated[
        list[LocalReference],
        Field(
            max_length=16, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        ),
    ] = []
    """Secrets for pulling the engine image. Rolls: replaces the engine pods."""
    volumes: Annotated[
        list[FreeForm], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = []
    """Further volumes, as in a pod. Rolls: replaces the engine pods."""
    volume_mounts: Annotated[
        list[FreeForm], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "atomic"})
    ] = []
    """Further mounts of the engine container, as in a pod. Rolls: replaces the engine pods."""
    model_secret_ref: SecretKeyReference | None = None
    """Token for a hub model, handed as HF_TOKEN to what downloads it: the engine, or the container before it where the profile has
    model.cache. Rolls: replaces the engine pods."""
    service_account_name: Annotated[str | None, Field(max_length=253)] = None
    """ServiceAccount of the engine pods (no token is mounted). Rolls: replaces the engine pods."""
    labels: Annotated[
        dict[LabelKey, LabelValue],
        Field(max_length=32, json_schema_extra={"x-kubernetes-validations": [RESERVED_LABEL_RULE]}),
    ] = {}
    """Further labels of the engine pods. Rolls: replaces the engine pods."""
    annotations: Annotated[dict[LabelKey, Annotated[str, Field(max_length=4096)]], Field(max_length=32)] = {}
    """Annotations of the engine pods. Rolls: replaces the engine pods."""
