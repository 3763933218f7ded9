import json
from typing import Any

import pytest
from pool_facts import (
    LLAMA_SHAPE,
    NOW,
    make_deployment,
    make_inventory,
    make_observed,
    make_pod,
    make_pool,
    make_profile,
)
from test_config_shape import LLAMA

from workslice_api.conditions import find_condition
from workslice_api.model_spec import FoundModel, ModelShape
from workslice_api.names import ConditionType
from workslice_api.profile import WorkspaceProfile
from workslice_operator.found_models import FoundModels
from workslice_operator.keys import Key, profile_key
from workslice_operator.observed import ModelFetch
from workslice_operator.pool_conditions import profile_ready
from workslice_operator.profile_fit import profile_fit, stated_fit
from workslice_operator.profile_status import profile_status
from workslice_operator.slice_choice import pool_slice

CACHED = {"source": "org/m", "cache": {"claim": "models"}}


def fetched(name: str = "a", **known: Any) -> Any:
    said = {"source": "org/m", "revision": "main", "config": LLAMA, "elements": {"BF16": 8_030_261_248}} | known
    return make_pod(name, fetch=ModelFetch(done=True, failure="", found=json.dumps(said)))


def test_a_profile_hears_once_of_what_its_pods_have_found() -> None:
    woken: list[Key] = []
    found, profile = FoundModels(woken.append), make_profile(model=CACHED)
    for _ in range(2):
        found.tell(profile, [fetched("a"), fetched("b"), make_pod("c")])
    assert woken == [profile_key("small")]
    of = found.of(profile)
    assert of is not None
    assert of.shape is not None
    assert of.shape.parameters == 8_030_261_248


def test_what_pods_of_an_earlier_model_say_counts_for_nothing() -> None:
    woken: list[Key] = []
    found, profile = FoundModels(woken.append), make_profile(model={**CACHED, "revision": "v2"})
    found.tell(profile, [fetched()])
    assert (woken, found.of(profile)) == ([], None)


def test_what_the_status_remembers_counts_after_a_restart_while_the_model_is_the_same() -> None:
    known = FoundModel(source="org/m", revision="main", message="x")
    profile = make_profile(model=CACHED)
    profile = profile.model_copy(update={"status": profile.status.model_copy(update={"model": known})})
    assert FoundModels(lambda _: None).of(profile) == known
    other = make_profile(model={**CACHED, "revision": "v2"}).model_copy(update={"status": profile.status})
    assert FoundModels(lambda _: None).of(other) is None


def fits(profile: Any, found: FoundModel | None) -> Any:
    status = profile.status.model_copy(update={"model": found})
    finding = profile_fit(profile.model_copy(update={"status": status}), None).finding
    return finding.status, finding.reason, finding.message


def test_a_model_that_was_fetched_is_judged_by_the_shape_that_was_found() -> None:
    h100 = {"profiles": ["1g.10gb"], "products": ["NVIDIA-H100-80GB-HBM3"]}
    profile, found = make_profile(model=CACHED, slice=h100), FoundModels(lambda _: None)
    found.tell(profile, [fetched()])
    status, reason, message = fits(profile, found.of(profile))
    assert (status, reason) == (False, "FoundNotToFit")
    assert "weights 15.0 GiB" in message
    small = make_profile(model={**CACHED, "shape": LLAMA_SHAPE | {"parameters": 10**9, "layers": 8}}, slice=h100)
    assert fits(small, found.of(profile))[0] is True, "what a person has stated counts before it"


def test_a_profile_says_why_the_shape_of_its_model_is_not_known() -> None:
    profile = make_profile(model=CACHED)
    assert fits(profile, None)[2].startswith("the model has not been fetched yet, and model.shape is not set, so ")
    found = FoundModel(source="org/m", revision="main", message="models of the kind mamba are not estimated")
    assert fits(profile, found)[1:] == ("ShapeUnknown", fits(profile, found)[2])
    assert fits(profile, found)[2].startswith("models of the kind mamba are not estimated, so whether the model fits")
    assert fits(make_profile(model={"source": "org/m"}), None)[2].startswith("model.shape is not set, so ")


HUGE = FoundModel(source="org/m", revision="main", shape=ModelShape.model_validate(LLAMA_SHAPE))


def knowing(found: FoundModel, **spec: Any) -> WorkspaceProfile:
    profile = make_profile(**{"model": CACHED, **spec})
    return profile.model_copy(update={"status": profile.status.model_copy(update={"model": found})})


def test_what_a_namespace_has_on_its_claim_stops_no_pool_of_the_profile() -> None:
    profile, inventory = knowing(HUGE), make_inventory(small=(1, 0), large=(1, 0))
    ready = profile_ready(make_observed(profile=profile, inventory=inventory), stated_fit(profile, inventory))
    assert ready.status is True
    stated = make_profile(model=CACHED | {"shape": LLAMA_SHAPE})
    refused = profile_ready(make_observed(profile=stated, inventory=inventory), stated_fit(stated, inventory))
    assert refused.status is False


def test_a_profile_says_that_a_found_shape_without_room_stops_nothing() -> None:
    status = profile_status(knowing(HUGE), [], make_inventory(small=(1, 0)), NOW)
    fits = find_condition(status.conditions, ConditionType.FITS)
    assert fits is not None
    assert (fits.status, fits.reason) == ("False", "FoundNotToFit")
    assert fits.message.endswith(
        "; pools start all the same, since pods have found the shape: copy status.model.shape into model.shape to stop them"
    )
    assert status.slices[0].fits is False
    assert status.slice == "1g.10gb", "which a new pool takes all the same"


@pytest.mark.parametrize("running", [False, True])
def test_a_found_shape_moves_no_pool_to_another_slice(running: bool) -> None:
    both = {"profiles": ["1g.10gb", "2g.20gb"]}
    inventory = make_inventory(small=(1, 0), large=(1, 0))  # no node has the larger of the two
    deployment = make_deployment(1) if running else None
    observed = make_observed(make_pool(), profile=knowing(HUGE, slice=both), inventory=inventory, deployment=deployment)
    assert observed.profile is not None
    rows = stated_fit(observed.profile, inventory).rows
    assert pool_slice(observed, observed.profile, 1, rows).slice == "1g.10gb"


def test_pods_that_say_different_things_of_a_model_wake_its_profile_once_more_and_count_for_nothing() -> None:
    woken: list[Key] = []
    found, profile = FoundModels(woken.append), make_profile(model=CACHED)
    for _ in range(3):
        found.tell(profile, [fetched("a")])
        found.tell(profile, [fetched("b", elements={"BF16": 1})])
    assert len(woken) == 2
    of = found.of(profile)
    assert of is not None
    assert (of.shape, of.message) == (None, "pods say different things of the model, and model.shape is not set")


def test_pods_may_disagree_about_one_model_and_agree_about_the_next() -> None:
    found, profile = FoundModels(lambda _: None), make_profile(model=CACHED)
    found.tell(profile, [fetched("a"), fetched("b", elements={"BF16": 1})])
    later = make_profile(model={**CACHED, "revision": "v2"})
    found.tell(later, [fetched("a", revision="v2")])
    of = found.of(later)
    assert of is not None
    assert of.shape is not None
