"""Whether a profile's model has room on the slices that the profile names: the rows of its status and the condition Fits. Pure.

Refused is only what is known not to run: where the model's shape, the slice's memory or an argument is unknown, so is the answer.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from workslice_api.names import Reason
from workslice_api.pool import WorkspacePool
from workslice_api.profile import SliceFit, WorkspaceProfile
from workslice_operator import sizing
from workslice_operator.cache_measurement import measurements
from workslice_operator.config_shape import is_of
from workslice_operator.finding import Finding
from workslice_operator.gpu_products import known_slices, usable_memory
from workslice_operator.memory_settings import (
    engine_settings,
    model_shape,
    settings_digest,
    unknown_argument,
    windows_unknown,
)
from workslice_operator.slice_inventory import SliceInventory

_LONGEST_MESSAGE: Final = 1000
_LONGEST_TOLD: Final = 3000
_COPY: Final = "copy the numbers of the model's config.json into model.shape to know before"
_ONLY_FOUND: Final = (
    "pools start all the same, since pods have found the shape: copy status.model.shape into model.shape to stop them"
)


@dataclass(frozen=True)
class ProfileFit:
    """What the model has of each slice, and what follows."""

    rows: tuple[SliceFit, ...]
    """In the order of slice.profiles."""
    finding: Finding
    """The condition Fits."""


def profile_fit(
    profile: WorkspaceProfile, inventory: SliceInventory | None, pools: Iterable[WorkspacePool] = ()
) -> ProfileFit:
    """Look at every slice. Where no node tells its memory now, what the profile's status remembers counts; what engines of `pools`, or
    those that the status remembers, have for a KV cache counts before any estimate.
    """
    shape, measured = model_shape(profile), measurements(profile, pools)
    estimates = (_row(profile, one, shape, inventory) for one in profile.spec.slice.profiles)
    rows = tuple(
        _measured(profile, one, measured[one.profile]) if one.profile in measured else one for one in estimates
    )
    return ProfileFit(rows, _finding(profile, rows, shape, inventory))


def stated_fit(
    profile: WorkspaceProfile, inventory: SliceInventory | None, pools: Iterable[WorkspacePool] = ()
) -> ProfileFit:
    """What pools go by: the same without the shape that was found. Whoever can write to a claim of one namespace can have any shape
    found, and a profile is for all namespaces.
    """
    if profile.status.model is None:
        return profile_fit(profile, inventory, pools)
    status = profile.status.model_copy(update={"model": None})
    return profile_fit(profile.model_copy(update={"status": status}), inventory, pools)


def _row(
    profile: WorkspaceProfile, slice_: str, shape: sizing.ModelShape | None, inventory: SliceInventory | None
) -> SliceFit:
    memories = _memories(profile, slice_, inventory)
    if not memories:
        return SliceFit(
            profile=slice_, message="its memory is unknown: no node has it, or none says how much memory it is"
        )
    smallest = min(memories, key=lambda product: (memories[product], product))
    if shape is None:
        message = _why_unknown(profile)
        return SliceFit(profile=slice_, product=smallest, usable_bytes=memories[smallest], message=message)
    settings = engine_settings(profile)
    sized = {product: sizing.size(shape, settings, memory) for product, memory in memories.items()}
    ordered = sorted(memories, key=lambda product: (memories[product], product))
    product = next((one for one in ordered if sized[one].fits), ordered[-1])
    it = sized[product]
    too_small = [one for one in ordered if it.fits and not sized[one].fits]
    warning = f"; not on {', '.join(too_small)}: leave it out of slice.products" if too_small else ""
    return SliceFit(
        profile=slice_,
        product=product,
        fits=None if unknown_argument(profile) else it.fits,
        usable_bytes=memories[product],
        weight_bytes=it.weights,
        overhead_bytes=it.overhead,
        kv_bytes=it.kv_bytes,
        kv_tokens=it.kv_tokens,
        max_concurrent=int(it.concurrency),
        message=f"{it.sentence}{warning}"[:_LONGEST_MESSAGE],
    )


def _measured(profile: WorkspaceProfile, estimate: SliceFit, tokens: int) -> SliceFit:
    shape, context = model_shape(profile), profile.spec.workspace.max_tokens
    beside = f" (the estimate was {estimate.kv_tokens:,})" if estimate.kv_tokens is not None else ""
    return estimate.model_copy(
        update={
            "fits": True,
            "source": "measured",
            "measured_for": settings_digest(profile, estimate.profile),
            "estimated_kv_tokens": estimate.kv_tokens,
            "kv_tokens": tokens,
            "kv_bytes": sizing.cache_bytes(shape, engine_settings(profile), tokens) if shape else None,
            "max_concurrent": max(1, tokens // context),
            "message": f"running engines have {tokens:,} tokens of KV cache, {tokens / context:.1f} requests of {context:,} tokens at "
            f"once{beside}",
        }
    )


def _memories(profile: WorkspaceProfile, slice_: str, inventory: SliceInventory | None) -> Mapping[str, int]:
    """Usable bytes of the slice by GPU product: as the nodes say, else as is known of the products, else as remembered."""
    products = profile.spec.slice.products
    found = inventory.usable_memory(slice_, products) if inventory else {}
    if found:
        return found
    known = {one: memory for one in products if (memory := usable_memory(slice_, one, {})) is not None}
    remembered = {
        one.product: one.usable_bytes
        for one in profile.status.slices
        if one.profile == slice_ and one.usable_bytes is not None and (not products or one.product in products)
    }
    return known or remembered


def _finding(
    profile: WorkspaceProfile,
    rows: tuple[SliceFit, ...],
    shape: sizing.ModelShape | None,
    inventory: SliceInventory | None,
) -> Finding:
    told = "; ".join(f"{one.profile}: {one.message}" for one in rows)[:_LONGEST_TOLD]
    if any(one.source == "measured" for one in rows):
        return Finding(True, Reason.MEASURED, told)
    if shape is None:
        message = f"{_why_unknown(profile)}, so whether the model fits shows when an engine starts"
        advice = "" if windows_unknown(profile) else f": {_COPY}"
        return Finding(None, Reason.SHAPE_UNKNOWN, f"{message}{advice}")
    if argument := unknown_argument(profile):
        message = f"engine.extraArgs holds {argument}, after which memory cannot be estimated; the numbers are those without it"
        return Finding(None, Reason.ARGUMENTS_UNKNOWN, message)
    if any(one.fits for one in rows):
        return Finding(True, Reason.ESTIMATED, told)
    if any(one.fits is None for one in rows):
        return Finding(None, Reason.MEMORY_UNKNOWN, told)
    message = f"{told}; {_way_out(profile, rows, shape, inventory)}"
    if profile.spec.model.shape is None:
        return Finding(False, Reason.FOUND_NOT_TO_FIT, f"{message}; {_ONLY_FOUND}")
    return Finding(False, Reason.DOES_NOT_FIT, message)


def _why_unknown(profile: WorkspaceProfile) -> str:
    model, found = profile.spec.model, profile.status.model
    if windows_unknown(profile):
        return f"how vLLM {profile.spec.engine.version} caches layers with a sliding window is not known"
    if model.cache is None:
        return "model.shape is not set"
    if found is None or not is_of(found, model):
        return "the model has not been fetched yet, and model.shape is not set"
    return found.message


def _way_out(
    profile: WorkspaceProfile, rows: tuple[SliceFit, ...], shape: sizing.ModelShape, inventory: SliceInventory | None
) -> str:
    """The nearest change after which the model would fit."""
    largest = max(rows, key=lambda one: one.usable_bytes or 0)
    slices = dict(_other_slices(profile, largest.product, inventory))
    change = sizing.nearest_change(shape, engine_settings(profile), largest.usable_bytes or 0, slices.items())
    if change is None:
        return "no slice of these GPUs is enough: take a smaller model, or one with quantized weights"
    return f"on {largest.profile}: {change.sentence}" if change.slice is None and len(rows) > 1 else change.sentence


def _other_slices(
    profile: WorkspaceProfile, product: str, inventory: SliceInventory | None
) -> Iterator[tuple[str, int]]:
    wanted = profile.spec.slice.products or sorted(
        {product, *(one.product for one in inventory.nodes)} if inventory else {product}
    )
    for one in wanted:
        yield from known_slices(one).items()
    if inventory is not None:
        for slice_ in inventory.slices():
            if memories := inventory.usable_memory(slice_, profile.spec.slice.products):
                yield slice_, min(memories.values())
