"""What a request needs, decided once when it arrives: its routes, its class and its work in tokens."""

import math
from dataclasses import dataclass, replace

from workslice_router.affinity import Ties, ties_of
from workslice_router.choose import lends, takes_over
from workslice_router.classify import classify
from workslice_router.estimate import Estimator
from workslice_router.first_replica import SOON
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal
from workslice_router.request_body import RequestView
from workslice_router.routing_table import ClassRoutes, ModelRoutes, Pool, RoutingTable


@dataclass(slots=True, init=False)  # neither frozen nor with dataclass's __init__: see RequestView
class Plan:
    """Good for every attempt of a request. Nobody changes it: a request that needs another one gets a new one."""

    routes: ModelRoutes
    chosen: ClassRoutes
    generation: int
    """Of the routing table that it was made from."""
    requested_class: str | None
    prompt_tokens: int
    """Estimated tokens of one prompt, with a margin."""
    total: int
    """Estimated tokens of one prompt and its answer: what a pool should prefer."""
    room: int
    """One prompt and the longest answer that it may get: what a context should hold."""
    least_tokens: int
    work: int
    """Tokens of all its prompts and answers: what it adds to a replica's outstanding work."""
    prompt_work: int
    """The prompts' part of it."""
    bounded: bool
    """The client set max_tokens."""
    arrived: float
    sequences: int
    """What the engine makes of it: one for each answer of each prompt."""
    ties: Ties | None
    """What ties it to replicas, if anything does."""

    def __init__(
        self,
        routes: ModelRoutes,
        chosen: ClassRoutes,
        generation: int,
        requested_class: str | None,
        prompt_tokens: int,
        total: int,
        room: int,
        least_tokens: int,
        work: int,
        prompt_work: int,
        bounded: bool,
        arrived: float,
        sequences: int = 1,
        ties: Ties | None = None,
    ) -> None:
        self.routes = routes
        self.chosen = chosen
        self.generation = generation
        self.requested_class = requested_class
        self.prompt_tokens = prompt_tokens
        self.total = total
        self.room = room
        self.least_tokens = least_tokens
        self.work = work
        self.prompt_work = prompt_work
        self.bounded = bounded
        self.arrived = arrived
        self.sequences = sequences
        self.ties = ties

    @property
    def size(self) -> int:
        """Its work as far as the model's largest context holds it."""
        work, most = self.work, self.routes.context_tokens
        return work if work < most else most

    @property
    def stays_in_class(self) -> bool:
        """No pool of another class may take it: the client named the class, or the class's pools say so."""
        return self.requested_class is not None or self.chosen.strict


def plan_request(
    table: RoutingTable,
    estimator: Estimator,
    view: RequestView,
    requested_class: str | None,
    now: float,
    session: bytes | None = None,
) -> Plan:
    """Find the model and the class of a request; `MODEL@CLASS` names both, and `requested_class` has the last word.

    A bounded answer is expected to be as long as the class's answers are, at most max_tokens. One without max_tokens must have room
    for nearly every answer that the model gives, since the engine would cut it without a word; but for none that every engine cuts.

    Raises:
        Refused: unknown model (404), unknown class or a request that fits nowhere (400).
    """
    routes = table.routes.get(view.model)
    if routes is None:
        name, _, suffix = view.model.rpartition("@")
        routes = table.routes.get(name)
        if routes is None:
            raise Refused(refusal(Reason.UNKNOWN_MODEL, param="model", model=view.model))
        requested_class = suffix if requested_class is None else requested_class
    model = routes.classes[0].pools[0].spec.model
    bounded = view.max_tokens is not None
    expected_prompt, prompt = estimator.expected_and_placed(model, view)
    answers, limit = estimator.answers, view.max_tokens
    if limit is None:
        limit = min(answers.longest(model), _room_for_answer(routes, prompt))

    def total_in(class_name: str) -> int:
        return prompt + (min(limit, math.ceil(answers.expected(model, class_name))) if bounded else limit)

    prompts = expected_prompt * view.prompts
    least = view.prompt_least + view.prompt_tokens + (1 if view.max_tokens is None else view.max_tokens)
    chosen = classify(routes, total_in, prompt, prompt + limit, least, requested_class)
    answer = min(limit, math.ceil(answers.expected(model, chosen.name)))
    return Plan(
        routes=routes,
        chosen=chosen,
        generation=table.generation,
        requested_class=requested_class,
        prompt_tokens=prompt,
        total=prompt + (answer if bounded else limit),
        room=prompt + limit,
        least_tokens=least,
        work=prompts + answer * view.choices,
        prompt_work=prompts,
        bounded=bounded,
        arrived=now,
        sequences=view.choices,
        ties=ties_of(model, session, view.prefix, prompts) if session or view.prefix is not None else None,
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
    chosen = classify(
        routes, lambda _: plan.total, plan.prompt_tokens, plan.room, plan.least_tokens, plan.requested_class
    )
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
    more = max(0, counted - plan.prompt_tokens)
    total, room = plan.total + more, plan.room + more
    if not plan.bounded:
        prompt = plan.prompt_tokens + more
        total = room = min(room, prompt + _room_for_answer(plan.routes, prompt))
    chosen = classify(plan.routes, lambda _: total, plan.prompt_tokens + more, room, counted, plan.requested_class)
    return replace(
        plan,
        chosen=chosen,
        prompt_tokens=plan.prompt_tokens + more,
        total=total,
        room=room,
        work=plan.work + more,
        prompt_work=plan.prompt_work + more,
    )


def _room_for_answer(routes: ModelRoutes, prompt: int) -> int:
    """Tokens that the model's largest context leaves for an answer."""
    return max(1, routes.context_tokens - prompt)


def holds(pool: Pool, routes: ModelRoutes, plan: Plan) -> bool:
    """Whether a pool may serve the request: same class and large enough, or of another class that is."""
    if not any(pool is member for one in routes.classes for member in one.pools):
        return False
    if pool.spec.class_name == plan.chosen.name:
        return plan.room <= pool.spec.context_tokens
    chosen = next((one for one in routes.classes if one.name == plan.chosen.name), plan.chosen)  # as it is by now
    if plan.requested_class is not None or chosen.strict:
        return False
    return takes_over(pool, plan.prompt_tokens, plan.total, plan.room) or lends(pool, chosen, plan.room)


def no_replicas(plan: Plan, retry_after: float = SOON) -> Refusal:
    """The model is configured, but nobody can serve this request now; perhaps in `retry_after` seconds."""
    return refusal(Reason.NO_REPLICAS, retry_after=retry_after, model=plan.routes.name)
