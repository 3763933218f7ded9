"""The answers of GET /v1/models: what the pools serve, whatever the engines say of themselves."""

import orjson

from workslice_router.openai_errors import Reason, Refused, refusal
from workslice_router.routing_table import ModelRoutes, RoutingTable


def models_document(table: RoutingTable) -> bytes:
    """Every name that clients may ask for, aliases included, in OpenAI's list shape."""
    routes = sorted(table.routes.values(), key=lambda one: one.name)
    return orjson.dumps({"object": "list", "data": [_model(one) for one in routes]})


def model_document(table: RoutingTable, model_id: str) -> bytes:
    """One model.

    Raises:
        Refused: 404, nobody serves the name.
    """
    routes = table.routes.get(model_id)
    if routes is None:
        raise Refused(refusal(Reason.UNKNOWN_MODEL, param="model", model=model_id))
    return orjson.dumps(_model(routes))


def _model(routes: ModelRoutes) -> dict[str, object]:
    return {
        "id": routes.name,
        "object": "model",
        "created": int(routes.created),
        "owned_by": "workslice",
        "root": routes.classes[0].pools[0].spec.model,
        "max_model_len": routes.context_tokens,
        "classes": [{"name": one.name, "max_total_tokens": one.tokens} for one in routes.classes],
    }
