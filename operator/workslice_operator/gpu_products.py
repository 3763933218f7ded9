"""Usable memory of GPU slices: the node's label first, then what is known of the product; never the slice's name. Pure.

1g.10gb is 9.5 GiB on one GPU and 9.75 on another, and 1g.18gb is 16. The figures come from `nvidia-smi mig -lgip` and from labels of
GPU feature discovery; where two sources differ, the smaller one stands.
"""

import re
from collections.abc import Mapping
from typing import Final

from workslice_api.slices import WHOLE, slice_resource

_MIB: Final = 2**20
_WHOLE_GPU_SHARE: Final = 0.98
"""The label tells what NVML counts of a whole GPU; CUDA sees 0.6 to 2 % less of it."""

_SLICES_MIB: Final[tuple[tuple[str, dict[str, int]], ...]] = (
    (r"\bA30\b", {"1g.6gb": 5836, "2g.12gb": 11672, "4g.24gb": 23344}),
    (
        r"\bA100\b.*40GB",
        {"1g.5gb": 4864, "1g.10gb": 9856, "2g.10gb": 9856, "3g.20gb": 19968, "4g.20gb": 19968, "7g.40gb": 40192},
    ),
    (
        r"\bA100\b.*80GB",
        {"1g.10gb": 9728, "1g.20gb": 19968, "2g.20gb": 19968, "3g.40gb": 40192, "4g.40gb": 40192, "7g.80gb": 80384},
    ),
    (
        r"\bH100-NVL\b",
        {"1g.12gb": 11008, "1g.24gb": 22016, "2g.24gb": 22016, "3g.47gb": 47206, "4g.47gb": 47206, "7g.94gb": 94822},
    ),
    (
        r"\bH100-(80GB|PCIe)",
        {"1g.10gb": 9984, "1g.20gb": 20096, "2g.20gb": 20096, "3g.40gb": 40320, "4g.40gb": 40320, "7g.80gb": 81152},
    ),
    (
        r"\bH200\b",
        {"1g.18gb": 16384, "1g.35gb": 33280, "2g.35gb": 33280, "3g.71gb": 71424, "4g.71gb": 71424, "7g.141gb": 143360},
    ),
    (r"\bRTX-PRO-6000\b", {"1g.24gb": 24186, "2g.48gb": 48517, "4g.96gb": 97280}),
)
"""Usable MiB of each base profile, by a pattern of the node label nvidia.com/gpu.product."""


def usable_memory(profile: str, product: str, labels: Mapping[str, str]) -> int | None:
    """Bytes that an engine sees on a slice of a node with that product and those labels; None when neither tells."""
    label = labels.get(f"{slice_resource(profile)}.memory", "")
    if re.fullmatch(r"[1-9][0-9]*", label):
        is_mig = profile != WHOLE or "-MIG-" in product
        return int(int(label) * _MIB * (1.0 if is_mig else _WHOLE_GPU_SHARE))
    return known_slices(product).get(re.split(r"[+-]", profile)[0])


def known_slices(product: str) -> Mapping[str, int]:
    """Usable bytes of the product's base profiles, smallest first; empty for a product that is not known."""
    for pattern, sizes in _SLICES_MIB:
        if re.search(pattern, product):
            return {name: mib * _MIB for name, mib in sorted(sizes.items(), key=lambda one: (one[1], one[0]))}
    return {}
