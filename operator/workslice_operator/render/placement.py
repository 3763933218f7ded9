"""Where engine pods may run: the profile's GPU products merged into the affinity of the pool's template."""

from collections.abc import Mapping, Sequence
from typing import Any

from workslice_operator.slice_inventory import PRODUCT_LABEL

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def merged_affinity(affinity: Mapping[str, Any] | None, products: Sequence[str]) -> dict[str, Any] | None:
    """The template's affinity, narrowed to nodes with one of the products; None when there is nothing to say."""
    if not products:
        return dict(affinity) if affinity else None
    on_product = {"key": PRODUCT_LABEL, "operator": "In", "values": sorted(products)}
    merged = dict(affinity or {})
    node_affinity = dict(merged.get("nodeAffinity") or {})
    terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    # Terms are alternatives: each of them must hold the product, or one would let other GPUs in.
    narrowed = [{**term, "matchExpressions": [*(term.get("matchExpressions") or []), on_product]} for term in terms]
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": narrowed}
    return {**merged, "nodeAffinity": node_affinity}
