"""Which request class a request belongs to: the one that its client names, else the smallest that holds it."""

from collections.abc import Callable

from workslice_router.openai_errors import Reason, Refused, refusal
from workslice_router.routing_table import ClassRoutes, ModelRoutes


def classify(
    routes: ModelRoutes, total_in: Callable[[str], int], prompt: int, room: int, least: int, requested: str | None
) -> ClassRoutes:
    """Class of a request whose prompt has about `prompt` tokens, that is expected to take `total_in(class name)` tokens of prompt and
    answer, that should have `room` for the longest answer it may get, and that cannot be smaller than `least`.

    The estimates only choose; a request is refused for its size when even `least` fits nowhere. Between the two the largest class
    takes it, and the engine, which counts exactly, has the last word.

    Raises:
        Refused: no class of the requested name, or nothing that may serve it can hold the request.
    """
    if requested is not None:
        chosen = next((one for one in routes.classes if one.name == requested), None)
        if chosen is None:
            known = ", ".join(one.name for one in routes.classes)
            raise Refused(refusal(Reason.UNKNOWN_CLASS, model=routes.name, requested=requested, classes=known))
        if least > chosen.context_tokens:
            raise _too_large(least, f"class '{chosen.name}' of model '{routes.name}'", chosen.context_tokens)
        return chosen
    for one in routes.classes:
        if room <= one.context_tokens and prefers(one.prompt_tokens, prompt) and total_in(one.name) <= one.tokens:
            return one
    holding = [one for one in routes.classes if room <= one.context_tokens]
    if holding:
        return holding[-1]
    if least > routes.context_tokens:
        raise _too_large(least, f"model '{routes.name}'", routes.context_tokens)
    return max(routes.classes, key=lambda one: (one.context_tokens, one.tokens))


def prefers(longest_prompt: int | None, prompt: int) -> bool:
    """Whether a prompt is within a class's bound, if it has one."""
    return longest_prompt is None or prompt <= longest_prompt


def _too_large(tokens: int, subject: str, limit: int) -> Refused:
    return Refused(refusal(Reason.REQUEST_TOO_LARGE, tokens=tokens, subject=subject, limit=limit))
