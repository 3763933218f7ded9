"""What to say of a spec.replicas that nothing reads: `kubectl scale` sets it in every mode, and one mode sizes the pool by demand."""

from typing import Final

from workslice_api.pool import WorkspacePoolSpec

_DEFAULT: Final = WorkspacePoolSpec.model_fields["replicas"].default


def unused_replicas(spec: WorkspacePoolSpec) -> str:
    """A sentence with what to set instead; empty when spec.replicas is used, or was left at its default."""
    if spec.scaling.mode != "QueueDepth" or spec.replicas == _DEFAULT:
        return ""
    return (
        f"spec.replicas ({spec.replicas}, as kubectl scale sets it) is not used in mode {spec.scaling.mode}: set "
        "scaling.minReplicas and scaling.maxReplicas, or scaling.mode to Fixed (External where an autoscaler sets it)"
    )
