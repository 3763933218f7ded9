"""Where engine pods may run: the profile's GPU products merged into the affinity of the pool's template."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from workslice_operator.slice_inventory import PRODUCT_LABEL

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def merged_affinity(affinity: Mapping[str, Any] | None, products: Sequence[str]) -> dict[str, Any] | None:
    """The template's affinity, narrowed to nodes with one of the products; None when there is nothing to say."""
    if not products:
        return dict(affinity) if affinity else None
    on_product = {"key": PRODUCT_LABEL, "operator": "In", "values": sorted(products)}
    merged = dict(affinity or {})
    node_affinity = merged.get("nodeAffinity") or {}
    required = node_affinity.get(_REQUIRED) or {} if isinstance(node_affinity, Mapping) else None
    terms = required.get("nodeSelectorTerms") or [{}] if isinstance(required, Mapping) else None
    if not _are_terms(terms):
        # The CRD does not look into an affinity: let the API server say what is wrong with this one.
        return merged
    # Terms are alternatives: each of them must hold the product, or one would let other GPUs in.
    narrowed = [{**term, "matchExpressions": [*(term.get("matchExpressions") or []), on_product]} for term in terms]
    return {**merged, "nodeAffinity": {**node_affinity, _REQUIRED: {"nodeSelectorTerms": narrowed}}}


def _are_terms(terms: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(terms, list) and all(
        isinstance(term, dict) and isinstance(term.get("matchExpressions") or [], list) for term in terms
    )
