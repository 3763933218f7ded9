"""Model names are cluster-wide: the first namespace to claim a name owns it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from workslice_api.ownership import model_ownership
from workslice_api.pool import WorkspacePool

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def pool(
    namespace: str, name: str, model: str, *aliases: str, age: int = 0, uid: str = "", holds: tuple[str, ...] = ()
) -> WorkspacePool:
    return WorkspacePool.model_validate(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid or f"{namespace}-{name}",
                "creationTimestamp": EPOCH - timedelta(seconds=age),
            },
            "spec": {
                "profileRef": {"name": "p"},
                "model": model,
                "aliases": list(aliases),
                "requestClass": {"name": "short", "maxTotalTokens": 100},
            },
            "status": {"models": list(holds)},
        }
    )


def test_older_pool_keeps_the_name() -> None:
    ownership = model_ownership([pool("b", "young", "m"), pool("a", "old", "m", age=10)], {})
    assert ownership.owners == {"m": "a"}
    conflict = ownership.conflicts["b/young"]
    assert (conflict.model, conflict.owner_namespace, conflict.owner_pool) == ("m", "a", "old")


def test_pools_of_one_namespace_share_a_name() -> None:
    assert model_ownership([pool("a", "short", "m"), pool("a", "long", "m")], {}).conflicts == {}


def test_alias_owned_elsewhere_is_a_conflict_too() -> None:
    assert (
        "b/late"
        in model_ownership([pool("a", "first", "m", "gpt", age=5), pool("b", "late", "x", "gpt")], {}).conflicts
    )


def test_pool_in_conflict_holds_none_of_its_other_names() -> None:
    pools = [pool("a", "first", "m", age=9), pool("b", "loser", "m", "extra", age=5), pool("c", "third", "extra")]
    ownership = model_ownership(pools, {})
    assert ownership.owners["extra"] == "c"
    assert set(ownership.conflicts) == {"b/loser"}


def test_older_pool_that_adds_an_alias_cannot_take_a_name_that_another_holds() -> None:
    pools = [pool("a", "old", "m", "x", age=99, holds=("m",)), pool("b", "young", "x", holds=("x",))]
    ownership = model_ownership(pools, {})
    assert (set(ownership.conflicts), ownership.owners["x"]) == ({"a/old"}, "b")


def test_name_that_a_pool_no_longer_lists_is_free_at_once() -> None:
    pools = [pool("a", "old", "m", age=9, holds=("m", "x")), pool("b", "young", "x")]
    assert model_ownership(pools, {}).conflicts == {}


def test_assigned_name_goes_to_its_namespace_whoever_came_first() -> None:
    ownership = model_ownership([pool("a", "old", "m", age=10), pool("b", "young", "m")], {"m": "b"})
    assert set(ownership.conflicts) == {"a/old"}
    assert ownership.conflicts["a/old"].owner_pool == ""


def test_same_age_is_decided_by_uid() -> None:
    assert model_ownership([pool("a", "x", "m", uid="2"), pool("b", "y", "m", uid="1")], {}).owners == {"m": "b"}


@given(st.permutations([pool("abc"[i % 3], f"p{i}", "mnk"[i % 2], "klm"[i % 3], age=i % 4) for i in range(6)]))
def test_order_of_listing_never_matters_and_no_name_has_two_namespaces(pools: list[WorkspacePool]) -> None:
    ownership = model_ownership(pools, {})
    assert ownership == model_ownership(sorted(pools, key=lambda p: p.key), {})
    serving = {
        (name, p.metadata.namespace) for p in pools if p.key not in ownership.conflicts for name in p.served_names
    }
    assert len({name for name, _ in serving}) == len(serving)
