"""Raw objects that the models can read: an object stored before a schema grew stricter must not stop the others. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from workslice_api.pool import WorkspacePool


def readable_pools(raws: Iterable[Mapping[str, Any]]) -> list[WorkspacePool]:
    """The pools that can be read; the reconcile of each of the others says what is wrong with it."""
    pools = []
    for raw in raws:
        try:
            pools.append(WorkspacePool.model_validate(raw))
        except ValidationError:
            continue
    return pools


def validation_sentence(error: ValidationError) -> str:
    """The faults of an object in one line, by field (the first five)."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)[:5])
