"""Whether a profile's model has room on the slices that the profile names: the rows of its status and the condition Fits. Pure.

Refused is only what is known not to run: where the model's shape, the slice's memory or an argument is unknown, so is the answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from workslice_api.names import Reason
from workslice_api.profile import ModelShape as StatedShape
from workslice_api.profile import SliceFit, WorkspaceProfile
from workslice_api.quantity import quantity_bytes
from workslice_operator import sizing
from workslice_operator.finding import Finding
from workslice_operator.gpu_products import known_slices, usable_memory
from workslice_operator.slice_inventory import SliceInventory

_CHANGING_MEMORY: Final = (
    "--dtype",
    "--quantization",
    "--kv-cache-dtype",
    "--cpu-offload",
    "--weight-offload",
    "--speculative",
    "--enable-lora",
    "--hf-overrides",
    "--compilation-config",
)
"""Flags (or how they begin) after which the estimate does not hold."""
_LONGEST_MESSAGE: Final = 1000


@dataclass(frozen=True)
class ProfileFit:
    """What the model has of each slice, and what follows."""

    rows: tuple[SliceFit, ...]
    """In the order of slice.profiles."""
    finding: Finding
    """The condition Fits."""


def profile_fit(profile: WorkspaceProfile, inventory: SliceInventory | None) -> ProfileFit:
    """Look at every slice; where no node tells its memory now, what the profile's status remembers counts."""
    shape = model_shape(profile)
    rows = tuple(_row(profile, one, shape, inventory) for one in profile.spec.slice.profiles)
    return ProfileFit(rows, _finding(profile, rows, shape, inventory))


def model_shape(profile: WorkspaceProfile) -> sizing.ModelShape | None:
    """The shape that the profile states."""
    stated: StatedShape | None = profile.spec.model.shape
    return sizing.ModelShape(**stated.model_dump(exclude={"quantization"})) if stated else None


def engine_settings(profile: WorkspaceProfile) -> sizing.EngineSettings:
    """What the engine is told that its memory depends on."""
    spec = profile.spec
    stored = spec.model.shape.quantization if spec.model.shape else None
    return sizing.EngineSettings(
        version=spec.engine.version,
        max_tokens=spec.workspace.max_tokens,
        max_concurrent=spec.workspace.max_concurrent,
        batched_tokens=spec.engine.batched_tokens,
        gpu_utilization=spec.memory.gpu_utilization,
        kv_cache_bytes=None if spec.memory.kv_cache is None else quantity_bytes(spec.memory.kv_cache),
        dtype=spec.model.dtype or "bfloat16",
        quantization=spec.model.quantization or stored or "none",
        kv_cache_dtype=spec.engine.kv_cache_dtype,
        cuda_graphs="--enforce-eager" not in _flags(profile),
    )


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
        message = "model.shape is not set"
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
        fits=None if _unknown_argument(profile) else it.fits,
        usable_bytes=memories[product],
        weight_bytes=it.weights,
        overhead_bytes=it.overhead,
        kv_bytes=it.kv_tokens * it.kv_bytes_per_token,
        kv_tokens=it.kv_tokens,
        max_concurrent=int(it.concurrency),
        message=f"{it.sentence}{warning}"[:_LONGEST_MESSAGE],
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
    if shape is None:
        message = (
            "model.shape is not set, so whether the model fits shows when an engine starts: copy the numbers of the model's config.json "
            "into model.shape to know before"
        )
        return Finding(None, Reason.SHAPE_UNKNOWN, message)
    if argument := _unknown_argument(profile):
        message = f"engine.extraArgs holds {argument}, after which memory cannot be estimated; the numbers are those without it"
        return Finding(None, Reason.ARGUMENTS_UNKNOWN, message)
    told = "; ".join(f"{one.profile}: {one.message}" for one in rows)
    if any(one.fits for one in rows):
        return Finding(True, Reason.ESTIMATED, told)
    if any(one.fits is None for one in rows):
        return Finding(None, Reason.MEMORY_UNKNOWN, told)
    return Finding(False, Reason.DOES_NOT_FIT, f"{told}; {_way_out(profile, rows, shape, inventory)}")


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


def _unknown_argument(profile: WorkspaceProfile) -> str:
    """The first argument that changes memory in a way that is not accounted for; empty when there is none."""
    for flag in _flags(profile):
        known = any(flag.startswith(one) or one.startswith(flag) for one in _CHANGING_MEMORY)
        if known or flag.startswith("-q"):
            return flag
    return ""


def _flags(profile: WorkspaceProfile) -> list[str]:
    given = (one.partition("=")[0].partition(" ")[0] for one in profile.spec.engine.extra_args)
    return [one.replace("_", "-") for one in given if one.startswith(("--", "-q"))]
