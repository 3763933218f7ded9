from pool_facts import NOW, make_inventory, make_pool, make_profile

from workslice_api.base import Condition
from workslice_api.names import Reason
from workslice_api.profile import WorkspaceProfileStatus
from workslice_operator.memory_settings import settings_digest
from workslice_operator.profile_status import profile_status


def accepted(status: WorkspaceProfileStatus) -> Condition:
    (condition,) = [one for one in status.conditions if one.type == "Accepted"]
    return condition


def test_a_profile_whose_slices_exist_is_accepted_even_when_all_are_taken() -> None:
    condition = accepted(profile_status(make_profile(), [], make_inventory(small=(1, 1)), NOW))
    assert (condition.status, condition.reason) == ("True", Reason.VALID)


def test_a_profile_whose_slices_no_node_has_says_which_there_are() -> None:
    condition = accepted(profile_status(make_profile(), [], make_inventory(large=(1, 0)), NOW))
    assert (condition.status, condition.reason) == ("False", Reason.SLICE_NOT_IN_CLUSTER)
    assert "no node has 1g.10gb slices (in the cluster: 3g.40gb)" in condition.message


def test_unreadable_nodes_are_no_verdict() -> None:
    condition = accepted(profile_status(make_profile(), [], None, NOW))
    assert condition.status == "Unknown"


def test_the_pools_that_use_a_profile_are_listed_and_counted() -> None:
    pools = [make_pool("b"), make_pool("a"), make_pool("c", profileRef={"name": "other"})]
    status = profile_status(make_profile(), pools, None, NOW)
    assert (status.pools, status.pool_count) == (["shop/a", "shop/b"], 2)


def test_a_list_of_very_many_pools_is_cut_but_the_count_is_not() -> None:
    status = profile_status(make_profile(), [make_pool(f"p{number}") for number in range(300)], None, NOW)
    assert (len(status.pools), status.pool_count) == (256, 300)


def test_a_profile_without_a_shape_is_as_before_and_says_how_to_know_more() -> None:
    status = profile_status(make_profile(), [], make_inventory(small=(1, 0)), NOW)
    (fits,) = [one for one in status.conditions if one.type == "Fits"]
    assert (fits.status, fits.reason) == ("Unknown", Reason.SHAPE_UNKNOWN)
    assert "copy the numbers of the model's config.json into model.shape" in fits.message
    assert [(one.profile, one.fits) for one in status.slices] == [("1g.10gb", None)]


def test_slices_without_room_for_the_model_do_not_make_up_for_those_that_are_missing() -> None:
    shape = {
        "parameters": 8 * 10**9,
        "layers": 32,
        "hiddenSize": 4096,
        "intermediateSize": 14336,
        "kvHeads": 8,
        "headSize": 128,
    }
    profile = make_profile(
        model={"source": "/models/llama", "shape": shape | {"vocabulary": 128_256}},
        slice={"profiles": ["1g.20gb", "1g.10gb"], "products": ["NVIDIA-H100-80GB-HBM3"]},
    )
    status = profile_status(profile, [], make_inventory(small=(1, 0)), NOW)
    assert (accepted(status).status, accepted(status).reason) == ("False", Reason.SLICE_NOT_IN_CLUSTER)
    assert "no node has 1g.20gb slices" in accepted(status).message
    assert (status.slice, [one.fits for one in status.slices]) == ("1g.20gb", [True, False])


def test_the_pools_of_a_profile_and_no_others_tell_how_long_starts_take() -> None:
    started = {"lastStart": {"since": NOW.isoformat(), "seconds": 42}}
    pools = [make_pool("a", status=started), make_pool("b", status={}), make_pool("c", profileRef={"name": "other"})]
    assert profile_status(make_profile(), pools, None, NOW).start_seconds == 42
    assert profile_status(make_profile(), pools[1:], None, NOW).start_seconds is None


def test_pools_that_may_not_use_a_profile_are_listed_but_have_no_say_in_what_is_known_of_it() -> None:
    profile = make_profile(allowedNamespaces=["lab"])
    digest = settings_digest(profile, "1g.10gb")
    told = {
        "lastStart": {"since": NOW.isoformat(), "seconds": 3600},
        "slices": {"profile": "1g.10gb", "kvTokens": 10**6, "measuredFor": digest},
    }
    status = profile_status(profile, [make_pool("a", status=told)], make_inventory(small=(1, 0)), NOW)
    assert (status.pools, status.start_seconds) == (["shop/a"], None)
    assert [one.source for one in status.slices] == ["estimated"]
