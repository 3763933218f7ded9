"""What `model` of a profile means: a claim in the pool's namespace, a path in the image, a hub id, or one that is fetched into a claim."""

from dataclasses import dataclass
from typing import Final

from workslice_api.model_spec import ModelSource

CLAIM_SCHEME: Final = "pvc://"
MOUNT_PATH: Final = "/models"
"""Where the claim is mounted in the engine container."""
CACHE_PATH: Final = "/model-cache"
"""Where the claim of model.cache is mounted."""
DEFAULT_REVISION: Final = "main"


@dataclass(frozen=True)
class ModelLocation:
    """Where the engine finds its weights."""

    argument: str
    """What vLLM is given as its model."""
    claim: str | None = None
    """PersistentVolumeClaim to mount at `mount`, in the pool's namespace."""
    mount: str = MOUNT_PATH
    hub: bool = False
    """Whether the engine downloads the weights."""
    cached: bool = False
    """Whether they are fetched into the claim before the engine starts."""


def locate_model(model: ModelSource) -> ModelLocation:
    """Read a model that the CRD's rules have let through."""
    source = model.source
    if source.startswith(CLAIM_SCHEME):
        claim, _, path = source.removeprefix(CLAIM_SCHEME).partition("/")
        inside = path.strip("/")
        return ModelLocation(argument=f"{MOUNT_PATH}/{inside}" if inside else MOUNT_PATH, claim=claim)
    if source.startswith("/"):
        return ModelLocation(argument=source)
    if model.cache is not None:
        folder = cache_folder(source, model.revision)
        return ModelLocation(argument=folder, claim=model.cache.claim, mount=CACHE_PATH, cached=True)
    return ModelLocation(argument=source, hub=True)


def cache_folder(source: str, revision: str | None) -> str:
    """Where a hub model lies in the claim that it is fetched into: one folder for each revision."""
    return f"{CACHE_PATH}/{source.replace('/', '--')}/{(revision or DEFAULT_REVISION).replace('/', '--')}"
