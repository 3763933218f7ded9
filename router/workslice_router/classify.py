"""Which request class a request belongs to: the one that its client names, else the smallest that holds it."""

from workslice_router.openai_errors import Reason, Refused, refusal
from workslice_router.routing_table import ClassRoutes, ModelRoutes


def classify(routes: ModelRoutes, total: int, least_total: int, requested: str | None) -> ClassRoutes:
    """Class of a request of an estimated `total` of prompt and answer tokens, which cannot be smaller than `least_total`.

    The estimate only chooses; a request is refused for its size when even `least_total` fits nowhere. Between the two the largest
    class takes it, and the engine, which counts exactly, has the last word.

    Raises:
        Refused: no class of the requested name, or nothing that may serve it can hold the request.
    """
    if requested is not None:
        chosen = next((one for one in routes.classes if one.name == requested), None)
        if chosen is None:
            known = ", ".join(one.name for one in routes.classes)
            raise Refused(refusal(Reason.UNKNOWN_CLASS, model=routes.name, requested=requested, classes=known))
        if least_total > chosen.context_tokens:
            raise _too_large(least_total, f"class '{chosen.name}' of model '{routes.name}'", chosen.context_tokens)
        return chosen
    for one in routes.classes:
        if total <= one.tokens:
            return one
    holding = [one for one in routes.classes if total <= one.context_tokens]
    if holding:
        return holding[-1]
    if least_total > routes.context_tokens:
        raise _too_large(least_total, f"model '{routes.name}'", routes.context_tokens)
    return max(routes.classes, key=lambda one: one.context_tokens)


def _too_large(tokens: int, subject: str, limit: int) -> Refused:
    return Refused(refusal(Reason.REQUEST_TOO_LARGE, tokens=tokens, subject=subject, limit=limit))
