"""What a request needs, decided once when it arrives: its routes, its class and its work in tokens."""

from dataclasses import dataclass, replace

from workslice_router.classify import classify
from workslice_router.estimate import Estimator, least_prompt_tokens
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.request_body import RequestView
from workslice_router.routing_table import ClassRoutes, ModelRoutes, Pool, RoutingTable


@dataclass(frozen=True, slots=True)
class Plan:
    """Good for every attempt of a request."""

    routes: ModelRoutes
    chosen: ClassRoutes
    generation: int
    """Of the routing table that it was made from."""
    requested_class: str | None
    prompt_tokens: int
    output_tokens: int
    least_tokens: int
    work: int
    """Tokens of all its prompts and answers: what it adds to a replica's outstanding work."""
    bounded: bool
    """The client set max_tokens."""
    arrived: float

    @property
    def total(self) -> int:
        """Estimated tokens of one prompt and its answer."""
        return self.prompt_tokens + self.output_tokens


def plan_request(
    table: RoutingTable,
    estimator: Estimator,
    view: RequestView,
    requested_class: str | None,
    default_output_tokens: int,
    now: float,
) -> Plan:
    """Find the model and the class of a request. One that set no max_tokens is taken to want `default_output_tokens`.

    Raises:
        Refused: unknown model (404), unknown class or a request that fits nowhere (400).
    """
    routes = table.routes.get(view.model)
    if routes is None:
        raise Refused(refusal(Reason.UNKNOWN_MODEL, param="model", model=view.model))
    prompt = estimator.prompt_tokens(routes.classes[0].pools[0].spec.model, view)
    output = default_output_tokens if view.max_tokens is None else view.max_tokens
    least = least_prompt_tokens(view) + (1 if view.max_tokens is None else view.max_tokens)
    return Plan(
        routes=routes,
        chosen=classify(routes, prompt + output, least, requested_class),
        generation=table.generation,
        requested_class=requested_class,
        prompt_tokens=prompt,
        output_tokens=output,
        least_tokens=least,
        work=prompt * view.prompts + output * view.choices,
        bounded=view.max_tokens is not None,
        arrived=now,
    )


def current_plan(table: RoutingTable, plan: Plan) -> Plan:
    """The plan by today's table.

    Raises:
        Refused: what the request needs is no longer there.
    """
    if plan.generation == table.generation:
        return plan
    routes = table.routes.get(plan.routes.name)
    if routes is None:
        raise Refused(no_replicas(plan))
    chosen = classify(routes, plan.total, plan.least_tokens, plan.requested_class)
    return replace(plan, routes=routes, chosen=chosen, generation=table.generation)


def larger_plan(table: RoutingTable, plan: Plan, counted: int) -> Plan | None:
    """The plan after an engine has counted at least `counted` prompt tokens, more than its context holds; None when nothing that may
    serve the request has a larger context.

    Raises:
        Refused: what the request needs is no longer there.
    """
    plan = current_plan(table, plan)
    largest = plan.routes.context_tokens if plan.requested_class is None else plan.chosen.context_tokens
    if largest < counted:
        return None
    prompt = max(plan.prompt_tokens, counted)
    chosen = classify(plan.routes, prompt + plan.output_tokens, counted, plan.requested_class)
    return replace(plan, chosen=chosen, prompt_tokens=prompt, work=plan.work + prompt - plan.prompt_tokens)


def holds(pool: Pool, routes: ModelRoutes, plan: Plan) -> bool:
    """Whether a pool may serve the request: same class and large enough, or of another class that is."""
    if not any(pool is member for one in routes.classes for member in one.pools):
        return False
    if pool.spec.class_name == plan.chosen.name:
        return plan.total <= pool.spec.context_tokens
    return plan.requested_class is None and plan.total <= pool.spec.class_tokens


def no_replicas(plan: Plan) -> Refusal:
    """The model is configured, but nobody can serve this request now."""
    return refusal(Reason.NO_REPLICAS, retry_after=5, model=plan.routes.name)
