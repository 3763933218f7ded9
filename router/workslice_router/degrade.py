"""What a request may lose before it is refused for want of a place: a part of its answer, then its model. Pure."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final

from workslice_router.admission import Admission, Lease
from workslice_router.openai_errors import Reason, Refusal, Refused
from workslice_router.request_body import EMBEDDINGS, RequestView
from workslice_router.request_plan import Plan
from workslice_router.routing_table import Pool, RoutingTable
from workslice_router.splice import member, put_max_tokens, splice
from workslice_router.waiting_room import Client, Ticket

TOO_MANY_REQUESTS: Final = 429


@dataclass(frozen=True, slots=True)
class LesserRequest:
    """The same question, asked for less."""

    step: str
    """max_tokens or fallback_model."""
    pool: str
    """Key of the pool that wants it so."""
    says: bytes
    """Value of the header x-workslice-degraded."""
    body: bytes
    view: RequestView
    requested_class: str | None


def lesser_place(
    admission: Admission,
    cause: Refusal,
    plan: Plan,
    view: RequestView,
    body: bytes,
    endpoint: str,
    client: Client,
    excluded: Collection[str],
) -> tuple[LesserRequest, Plan, Lease | Ticket] | None:
    """A place for less than a request wanted that is about to be refused with `cause`; None when nothing helps."""
    if cause.status != TOO_MANY_REQUESTS:
        return None
    # One that has waited long enough is only helped by a place that is free now; in a queue it would only push out others.
    may_wait = cause.reason is not Reason.QUEUE_TIMEOUT
    for lesser in lesser_requests(admission.table, plan, view, body, endpoint):
        size = len(lesser.body)
        try:
            less = admission.plan(lesser.view, lesser.requested_class)
            less = replace(less, arrived=plan.arrived, ties=plan.ties)  # the session goes along
            return lesser, less, admission.submit(less, client, body_bytes=size, excluded=excluded, may_wait=may_wait)
        except Refused:
            continue
    return None


def lesser_requests(
    table: RoutingTable, plan: Plan, view: RequestView, body: bytes, endpoint: str
) -> Iterator[LesserRequest]:
    """What to try instead of a request whose pools have no place, best first: nothing where its pools do not say so.

    Each is made from the request as it came: a fallback model answers at full length. Embeddings have none: what another model makes
    of a text cannot be compared with what the wanted one has made of others.
    """
    pool = next((one for one in plan.chosen.pools if one.spec.degrade_tokens is not None), None)
    if pool is not None:
        shorter = _shorter(pool, plan, view, body)
        if shorter is not None:
            yield shorter
    pool = next((one for one in plan.chosen.pools if one.spec.fallback_model), None)
    if pool is not None and endpoint != EMBEDDINGS:
        other = _other_model(table, pool, plan, view, body)
        if other is not None:
            yield other


def _shorter(pool: Pool, plan: Plan, view: RequestView, body: bytes) -> LesserRequest | None:
    """With a shorter answer, if that is what it would be; an engine refuses one that is shorter than min_tokens."""
    most = pool.spec.degrade_tokens
    assert most is not None
    if view.max_tokens is not None and view.max_tokens <= most:
        return None
    fewest = member(body, "min_tokens")
    if fewest is not None and (not fewest.isdigit() or int(fewest) > most) and fewest != b"null":
        return None
    return LesserRequest(
        "max_tokens",
        pool.key,
        b"max_tokens=%d" % most,
        put_max_tokens(body, most),
        replace(view, max_tokens=most),
        plan.requested_class,
    )


def _other_model(table: RoutingTable, pool: Pool, plan: Plan, view: RequestView, body: bytes) -> LesserRequest | None:
    """Of the fallback model: another one, of the same namespace. In its class of the same name, if there is one that was asked for."""
    name = pool.spec.fallback_model
    routes = table.routes.get(name)
    if routes is None:
        return None
    serving = routes.classes[0].pools[0].spec
    if serving.model == pool.spec.model or serving.namespace != pool.spec.namespace:
        return None
    requested = plan.requested_class
    if requested not in {one.name for one in routes.classes}:
        requested = None
    return LesserRequest(
        "fallback_model",
        pool.key,
        b"model=" + name.encode(),
        splice(body, model=name, remove=()),
        replace(view, model=name),
        requested,
    )
