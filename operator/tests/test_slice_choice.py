from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pool_facts import (
    INSTALLATION,
    LLAMA_SHAPE,
    NOW,
    make_deployment,
    make_observed,
    make_pod,
    make_pool,
    make_profile,
    ready_pod,
    unplaced_pod,
)

from workslice_api.names import Reason
from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_api.slices import slice_resource
from workslice_operator import sizing
from workslice_operator.observed import Observed
from workslice_operator.plan import Plan, plan
from workslice_operator.profile_fit import stated_fit
from workslice_operator.rollout_facts import DeploymentFacts
from workslice_operator.slice_choice import SliceChoice, pool_slice
from workslice_operator.slice_inventory import NodeSlices, SliceInventory
from workslice_operator.template_record import TemplateRecord, rendered_record

BOTH = ["1g.10gb", "2g.20gb"]


def choosy(*slices: str, **spec: Any) -> WorkspaceProfile:
    return make_profile(slice={"profiles": list(slices or BOTH)}, **spec)


def cluster(**counts: tuple[int, int]) -> SliceInventory:
    """Counts as small=(slices, taken), medium=..., large=..."""
    names = {"small": "1g.10gb", "medium": "2g.20gb", "large": "3g.40gb"}
    have = {slice_resource(names[kind]): count for kind, (count, _) in counts.items()}
    used = {slice_resource(names[kind]): taken for kind, (_, taken) in counts.items()}
    return SliceInventory((NodeSlices("n", "NVIDIA-H100-80GB-HBM3", True, have, used),))


def deployed(slice_: str, profile: WorkspaceProfile | None = None, replicas: int = 1) -> DeploymentFacts:
    spec = (profile or choosy()).spec
    narrowed = make_profile(**spec.to_wire() | {"slice": {"profiles": [slice_]}})
    return make_deployment(replicas, template_hash=rendered_record(make_pool(), narrowed).hash)


def on(slice_: str, message: str = "before") -> WorkspacePool:
    return make_pool(status={"slices": {"profile": slice_, "message": message}})


def chosen(observed: Observed, profile: WorkspaceProfile, wanted: int) -> SliceChoice:
    return pool_slice(observed, profile, wanted, stated_fit(profile, observed.inventory).rows)


def asked_for(result: Plan) -> list[str]:
    limits = result.apply[-1]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    return [name for name in limits if name.startswith("nvidia.com/")]


@pytest.mark.parametrize(
    ("inventory", "slice_", "why"),
    [
        (cluster(small=(1, 0), medium=(1, 0)), "1g.10gb", "the first of slice.profiles"),
        (cluster(medium=(1, 0)), "2g.20gb", "no node has a 1g.10gb"),
        (cluster(small=(2, 2), medium=(1, 0)), "2g.20gb", "no 1g.10gb is free"),
        (cluster(small=(2, 2), medium=(1, 1)), "1g.10gb", "the first of slice.profiles"),
        (cluster(large=(1, 0)), "1g.10gb", "the first of slice.profiles"),
        (None, "1g.10gb", "the first of slice.profiles, while the nodes cannot be read"),
    ],
    ids=["both free", "first not there", "first taken", "both taken", "neither there", "unknown"],
)
def test_a_new_pool_takes_the_first_slice_that_it_can_get(
    inventory: SliceInventory | None, slice_: str, why: str
) -> None:
    assert chosen(make_observed(profile=choosy(), inventory=inventory), choosy(), 1) == SliceChoice(slice_, why)


def test_a_kind_of_which_there_are_enough_comes_before_one_of_which_there_are_too_few() -> None:
    observed = make_observed(profile=choosy(), inventory=cluster(small=(2, 1), medium=(3, 0)))
    assert chosen(observed, choosy(), 2) == SliceChoice("2g.20gb", "too few 1g.10gb are free")
    assert chosen(observed, choosy(), 4).slice == "1g.10gb", "neither is enough"


def test_a_slice_without_room_for_the_model_is_passed_over() -> None:
    profile = choosy(model={"source": "/models/llama", "shape": LLAMA_SHAPE})
    observed = make_observed(profile=profile, inventory=cluster(small=(1, 0), medium=(1, 0)))
    assert chosen(observed, profile, 1) == SliceChoice("2g.20gb", "1g.10gb has no room for the model")


def test_the_choice_is_what_pods_ask_for_and_the_status_and_one_event_say_why() -> None:
    result = plan(make_observed(profile=choosy(), inventory=cluster(medium=(2, 0))), INSTALLATION, NOW)
    assert asked_for(result) == ["nvidia.com/mig-2g.20gb"]
    slices = result.status.slices
    assert (slices.profile, slices.message, slices.free) == ("2g.20gb", "no node has a 1g.10gb", 2)
    (event,) = [one for one in result.events if one.reason is Reason.SLICE_CHOSEN]
    assert event.message == "replicas take 2g.20gb slices: no node has a 1g.10gb"
    known = make_pool(status=result.status.to_wire())
    again = plan(make_observed(known, choosy(), inventory=cluster(medium=(2, 0))), INSTALLATION, NOW)
    assert Reason.SLICE_CHOSEN not in [one.reason for one in again.events]


def test_a_pool_that_runs_stays_where_it_is_when_its_preference_comes_up() -> None:
    facts: Any = {"deployment": deployed("2g.20gb"), "pods": (ready_pod(),)}
    observed = make_observed(on("2g.20gb"), choosy(), inventory=cluster(small=(2, 0), medium=(1, 1)), **facts)
    result = plan(observed, INSTALLATION, NOW)
    assert asked_for(result) == ["nvidia.com/mig-2g.20gb"]
    assert result.status.slices.message == "before"


def test_a_choice_that_no_status_tells_of_is_read_off_the_deployment() -> None:
    facts: Any = {"deployment": deployed("2g.20gb"), "pods": (ready_pod(),)}
    observed = make_observed(make_pool(), choosy(), inventory=cluster(small=(2, 0), medium=(1, 1)), **facts)
    assert chosen(observed, choosy(), 1).slice == "2g.20gb"


def test_a_pool_whose_pods_are_replaced_anyway_chooses_anew() -> None:
    facts: Any = {"deployment": deployed("2g.20gb"), "pods": (ready_pod(),)}
    changed = choosy(engine={"startupTimeout": "11m"})
    observed = make_observed(on("2g.20gb"), changed, inventory=cluster(small=(2, 0), medium=(1, 1)), **facts)
    assert chosen(observed, changed, 1) == SliceChoice("1g.10gb", "the first of slice.profiles")


def remembered(slice_: str, profile: WorkspaceProfile, template: dict[str, Any]) -> TemplateRecord:
    """What another version of the operator, or an earlier attempt, left in an annotation."""
    narrowed = make_profile(**profile.spec.to_wire() | {"slice": {"profiles": [slice_]}})
    return TemplateRecord(template, make_pool().spec, narrowed.spec)


def test_another_rendering_by_another_version_of_the_operator_is_no_reason_to_choose_anew() -> None:
    record = remembered("2g.20gb", choosy(), {"rendered": "otherwise"})
    running = make_deployment(1, template_hash=record.hash, ready_template=record.as_text())
    observed = make_observed(
        on("2g.20gb"), choosy(), inventory=cluster(small=(2, 0), medium=(1, 1)), deployment=running, pods=(ready_pod(),)
    )
    assert chosen(observed, choosy(), 1).slice == "2g.20gb"
    result = plan(observed, INSTALLATION, NOW)
    assert result.apply[-1]["spec"]["template"] == {"rendered": "otherwise"}


def test_a_version_that_was_given_up_is_not_tried_again_because_another_slice_comes_up() -> None:
    changed = choosy(engine={"image": "broken:1"})
    before = remembered("2g.20gb", choosy(), {"what": "ran before"})
    failed = remembered("2g.20gb", changed, {"what": "failed"})
    running = make_deployment(
        1, template_hash=before.hash, ready_template=before.as_text(), failed_template=failed.as_text()
    )
    observed = make_observed(
        on("2g.20gb"), changed, inventory=cluster(small=(2, 0), medium=(1, 1)), deployment=running, pods=(ready_pod(),)
    )
    assert chosen(observed, changed, 1).slice == "2g.20gb"
    assert plan(observed, INSTALLATION, NOW).apply[-1]["spec"]["template"] == {"what": "ran before"}


def test_what_a_pool_holds_itself_counts_as_free_when_it_chooses_anew() -> None:
    changed = choosy(engine={"startupTimeout": "11m"})
    facts: Any = {"deployment": deployed("1g.10gb"), "pods": (ready_pod(),)}
    observed = make_observed(on("1g.10gb"), changed, inventory=cluster(small=(1, 1), medium=(1, 0)), **facts)
    assert chosen(observed, changed, 1).slice == "1g.10gb"


def test_a_pool_without_a_single_slice_moves_to_a_kind_that_is_free() -> None:
    waiting = unplaced_pod("a", "0/1 nodes are available: 1 Insufficient nvidia.com/mig-1g.10gb.")
    facts: Any = {"deployment": deployed("1g.10gb"), "pods": (waiting,)}
    moved = make_observed(on("1g.10gb"), choosy(), inventory=cluster(small=(1, 1), medium=(1, 0)), **facts)
    assert chosen(moved, choosy(), 1) == SliceChoice("2g.20gb", "no 1g.10gb is free")
    nowhere = make_observed(on("1g.10gb"), choosy(), inventory=cluster(small=(1, 1), medium=(1, 1)), **facts)
    assert chosen(nowhere, choosy(), 1).slice == "1g.10gb"


def test_a_pool_whose_pods_are_not_placed_yet_waits_for_them_while_its_slices_are_free() -> None:
    facts: Any = {"deployment": deployed("2g.20gb"), "pods": (unplaced_pod("a", ""),)}
    observed = make_observed(on("2g.20gb"), choosy(), inventory=cluster(small=(1, 0), medium=(1, 0)), **facts)
    assert chosen(observed, choosy(), 1) == SliceChoice("2g.20gb", "before")


def test_engines_that_crash_where_they_have_no_room_move_once_the_shape_is_known() -> None:
    shaped = choosy(model={"source": "/models/tiny", "shape": LLAMA_SHAPE})
    facts: Any = {"deployment": deployed("1g.10gb"), "inventory": cluster(small=(1, 1), medium=(1, 0))}
    crashing = make_observed(on("1g.10gb"), shaped, pods=(make_pod(),), **facts)
    assert chosen(crashing, shaped, 1).slice == "2g.20gb"
    serving = make_observed(on("1g.10gb"), shaped, pods=(ready_pod(),), **facts)
    assert chosen(serving, shaped, 1).slice == "1g.10gb", "who serves is no estimate's business"


def test_a_look_at_a_pool_estimates_each_slice_of_its_profile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    estimates: list[int] = []
    size = sizing.size

    def counted(shape: sizing.ModelShape, settings: sizing.EngineSettings, memory: int) -> sizing.Sizing:
        estimates.append(memory)
        return size(shape, settings, memory)

    monkeypatch.setattr(sizing, "size", counted)
    shaped = choosy(model={"source": "/models/tiny", "shape": LLAMA_SHAPE})
    observed = make_observed(make_pool(), shaped, inventory=cluster(small=(1, 0), medium=(1, 0)))
    assert asked_for(plan(observed, INSTALLATION, NOW)) == ["nvidia.com/mig-2g.20gb"]
    assert len(estimates) == 2


counts = st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(counts, counts, counts, st.permutations(["1g.10gb", "2g.20gb", "3g.40gb"]), st.integers(1, 4), st.booleans())
def test_a_choice_once_made_is_kept_while_nothing_but_the_inventory_changes(
    small: tuple[int, int], medium: tuple[int, int], large: tuple[int, int], order: list[str], wanted: int, held: bool
) -> None:
    profile, inventory = choosy(*order), cluster(small=small, medium=medium, large=large)
    first = chosen(make_observed(profile=profile, inventory=inventory), profile, wanted)
    assert first.slice in order
    pods = (ready_pod(),) if held else ()
    facts: Any = {"deployment": deployed(first.slice, profile), "pods": pods}
    same = make_observed(on(first.slice, first.why), profile, inventory=inventory, **facts)
    assert chosen(same, profile, wanted) == first
    if held:
        for changed in (SliceInventory(), None, cluster(small=(9, 0), medium=(9, 0), large=(9, 0))):
            moved = make_observed(on(first.slice, first.why), profile, inventory=changed, **facts)
            assert chosen(moved, profile, wanted) == first
