"""Choosing the request class."""

from dataclasses import replace

import pytest
from routed_pools import LONG, SHORT, table_of

from workslice_router.classify import classify
from workslice_router.openai_errors import Reason, Refused
from workslice_router.routing_table import ModelRoutes


def choose(
    routes: ModelRoutes, total: int, least: int, requested: str | None = None, room: int | None = None, prompt: int = 1
) -> str:
    return classify(routes, lambda _: total, prompt, total if room is None else room, least, requested).name


@pytest.fixture
def routes() -> ModelRoutes:
    return table_of((LONG, ()), (SHORT, ())).routes["tiny"]


@pytest.mark.parametrize(("total", "expected"), [(1, "short"), (2000, "short"), (2001, "long"), (8000, "long")])
def test_the_smallest_class_that_holds_the_request(routes: ModelRoutes, total: int, expected: str) -> None:
    assert choose(routes, total, total) == expected


def test_a_prompt_longer_than_the_class_wants_belongs_to_a_larger_one() -> None:
    routes = table_of((LONG, ()), (replace(SHORT, class_prompt_tokens=500), ())).routes["tiny"]
    assert choose(routes, 600, 600, prompt=500) == "short"
    assert choose(routes, 600, 600, prompt=501) == "long"
    assert choose(routes, 600, 600, "short", prompt=501) == "short", "a class that was asked for is given"


def test_a_class_wants_as_long_prompts_as_one_of_its_pools() -> None:
    limits = (replace(SHORT, class_prompt_tokens=500), replace(SHORT, key="serving/b", class_prompt_tokens=700))
    bounded = table_of((LONG, ()), *((one, ()) for one in limits)).routes["tiny"]
    assert choose(bounded, 900, 900, prompt=700) == "short"
    assert choose(bounded, 900, 900, prompt=701) == "long"
    unbounded = table_of((LONG, ()), (limits[0], ()), (replace(SHORT, key="serving/c"), ())).routes["tiny"]
    assert choose(unbounded, 1900, 1900, prompt=1800) == "short"


def test_a_named_class_wins_over_the_size(routes: ModelRoutes) -> None:
    assert choose(routes, 10, 10, "long") == "long"


def test_an_unknown_class_is_answered_with_those_that_exist(routes: ModelRoutes) -> None:
    with pytest.raises(Refused) as caught:
        choose(routes, 10, 10, "huge")
    assert caught.value.refusal.reason is Reason.UNKNOWN_CLASS
    assert b"short, long" in caught.value.refusal.body


def test_what_fits_nowhere_even_at_its_smallest_is_refused_with_the_largest_limit(routes: ModelRoutes) -> None:
    with pytest.raises(Refused) as caught:
        choose(routes, 20_000, 8001)
    assert caught.value.refusal.reason is Reason.REQUEST_TOO_LARGE
    assert b"8001" in caught.value.refusal.body
    assert b"8000" in caught.value.refusal.body


def test_an_estimate_alone_refuses_nobody(routes: ModelRoutes) -> None:
    assert choose(routes, 20_000, 5000) == "long"


def test_larger_than_every_class_but_within_a_context_goes_to_the_largest_class() -> None:
    roomy = replace(LONG, class_tokens=4000)
    routes = table_of((SHORT, ()), (roomy, ())).routes["tiny"]
    assert choose(routes, 6000, 6000) == "long"


def test_what_may_exceed_every_context_goes_to_the_largest_class_even_when_all_contexts_are_equal() -> None:
    routes = table_of((LONG, ()), (replace(SHORT, context_tokens=LONG.context_tokens), ())).routes["tiny"]
    assert choose(routes, 5000, 5000, room=9000) == "long"


def test_a_named_class_that_cannot_hold_the_request_names_its_limit(routes: ModelRoutes) -> None:
    with pytest.raises(Refused) as caught:
        choose(routes, 5000, 5000, "short")
    assert b"class 'short'" in caught.value.refusal.body
    assert b"2000" in caught.value.refusal.body


def test_the_longest_answer_must_fit_the_context_even_when_a_short_one_is_expected(routes: ModelRoutes) -> None:
    assert choose(routes, 600, 600, room=2000) == "short"
    assert choose(routes, 600, 600, room=2001) == "long"


def test_each_class_is_asked_with_the_answers_that_it_gives(routes: ModelRoutes) -> None:
    assert classify(routes, {"short": 2001, "long": 3000}.__getitem__, 1, 2000, 0, None).name == "long"
    assert classify(routes, {"short": 2000, "long": 3000}.__getitem__, 1, 2000, 0, None).name == "short"
