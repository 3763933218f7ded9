"""What `model.source` of a profile means: a claim in the pool's namespace, a path in the image, or a hub id."""

from dataclasses import dataclass
from typing import Final

CLAIM_SCHEME: Final = "pvc://"
MOUNT_PATH: Final = "/models"
"""Where the claim is mounted in the engine container."""


@dataclass(frozen=True)
class ModelLocation:
    """Where the engine finds its weights."""

    argument: str
    """What vLLM is given as its model."""
    claim: str | None = None
    """PersistentVolumeClaim to mount at MOUNT_PATH, in the pool's namespace."""
    hub: bool = False
    """Whether the weights are downloaded."""


def locate_model(source: str) -> ModelLocation:
    """Read a source that the CRD's pattern has let through."""
    if source.startswith(CLAIM_SCHEME):
        claim, _, path = source.removeprefix(CLAIM_SCHEME).partition("/")
        inside = path.strip("/")
        return ModelLocation(argument=f"{MOUNT_PATH}/{inside}" if inside else MOUNT_PATH, claim=claim)
    if source.startswith("/"):
        return ModelLocation(argument=source)
    return ModelLocation(argument=source, hub=True)
