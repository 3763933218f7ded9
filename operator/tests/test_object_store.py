from typing import Any

import pytest

from workslice_operator.object_store import ObjectStore, pool_of


def raw(name: str = "a", version: int = 1, uid: str = "u", pool: str = "", **fields: Any) -> dict[str, Any]:
    labels = {"workslice.dev/pool": pool, "app.kubernetes.io/managed-by": "workslice"} if pool else {}
    metadata = {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata, **fields}


def without_version(one: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in one["metadata"].items() if key != "resourceVersion"}
    return {**one, "metadata": metadata}


def test_what_is_kept_can_be_read_with_its_version() -> None:
    store = ObjectStore(without_version)
    assert store.put(raw(spec={"replicas": 2}))
    assert store.get("shop", "a") == raw(spec={"replicas": 2})
    assert store.get("shop", "b") is None
    assert store.get("other", "a") is None


def test_long_objects_come_back_as_they_were() -> None:
    store = ObjectStore(without_version)
    long = raw(spec={"template": ["--flag"] * 5000})
    assert store.put(long)
    assert not store.put(raw(version=2, spec=long["spec"]))
    assert store.get("shop", "a") == raw(version=2, spec=long["spec"])
    assert store.absent([]) != []


def test_what_objects_have_in_common_takes_no_memory() -> None:
    store = ObjectStore(without_version)
    for name in "abc":
        store.put(raw(name, spec={str(number): number**3 for number in range(200)}))
    assert len(store._objects["shop", "c"].content) < 100
    assert store.get("shop", "c") == raw("c", spec={str(number): number**3 for number in range(200)})


def test_only_what_is_kept_counts_as_a_change() -> None:
    store = ObjectStore(lambda one: {"metadata": {}, "spec": one["spec"]})
    store.put(raw(spec=1, status=1))
    assert not store.put(raw(version=2, spec=1, status=2))
    assert store.put(raw(version=3, spec=2, status=2))


def test_an_older_version_changes_nothing() -> None:
    store = ObjectStore(without_version)
    store.put(raw(version=5, spec="new"))
    assert not store.put(raw(version=4, spec="old"))
    assert store.get("shop", "a") == raw(version=5, spec="new")


def test_only_a_newer_object_of_the_name_takes_the_place() -> None:
    store = ObjectStore(without_version)
    store.put(raw(version=5))
    assert not store.put(raw(version=4, uid="v"))
    assert store.put(raw(version=6, uid="w"))


def test_a_list_replaces_what_was_there_before_but_nothing_that_was_told_meanwhile() -> None:
    store = ObjectStore(without_version)
    for name in ("before", "written", "gone"):
        store.put(raw(name, version=100))
    with store.listing() as take:
        store.update(raw("written", version=102))
        store.remove(raw("gone", version=103))
        assert take(raw("before", version=50, spec="restored"))
        assert not take(raw("written", version=101))
        assert not take(raw("gone", version=100))
    assert store.versions() == {("shop", "before"): ("u", 50), ("shop", "written"): ("u", 102)}


def test_a_list_brings_what_was_made_anew_after_what_was_told_had_gone() -> None:
    store = ObjectStore(without_version)
    store.put(raw(version=1))
    with store.listing() as take:
        store.remove(raw(version=2))
        assert take(raw(version=3, uid="v"))
    assert store.uids() == {("shop", "a"): "v"}


def test_what_is_gone_is_gone_but_its_successor_stays() -> None:
    store = ObjectStore(without_version)
    store.put(raw(version=1))
    assert store.remove(raw(version=2))
    assert not store.remove(raw(version=2))
    store.put(raw(version=4, uid="v"))
    assert not store.remove(raw(version=5))
    assert len(store) == 1


def test_what_was_written_does_not_come_back_after_it_was_deleted() -> None:
    store = ObjectStore(without_version)
    store.put(raw(version=1))
    store.update(raw(version=2, spec="written"))
    assert store.get("shop", "a") == raw(version=2, spec="written")
    store.remove(raw(version=3))
    store.update(raw(version=2, spec="written"))
    assert store.get("shop", "a") is None


def test_objects_are_found_by_the_label_of_their_pool() -> None:
    store = ObjectStore(without_version)
    store.put(raw("a", pool="chat"))
    store.put(raw("b", pool="chat"))
    store.put(raw("c", pool="other"))
    store.put(raw("d"))
    assert {one["metadata"]["name"] for one in store.of_pool("shop", "chat")} == {"a", "b"}
    store.remove(raw("a", version=2))
    store.put(raw("b", version=2, pool="other"))
    assert store.of_pool("shop", "chat") == []
    assert store.of_pool("elsewhere", "other") == []


def test_what_carries_the_label_of_a_pool_and_is_not_managed_by_workslice_is_of_no_pool() -> None:
    store = ObjectStore(without_version)
    foreign = raw("a", pool="chat")
    del foreign["metadata"]["labels"]["app.kubernetes.io/managed-by"]
    store.put(foreign)
    assert store.of_pool("shop", "chat") == []


@pytest.mark.parametrize("now_of", ["other", ""])
def test_what_changes_its_pool_is_told_to_be_gone_from_the_former_one(now_of: str) -> None:
    told: list[tuple[str, bool]] = []
    store = ObjectStore(without_version, lambda one, there: told.append((pool_of(one), there)))
    store.put(raw(version=1, pool="chat"))
    store.update(raw(version=2, pool=now_of))
    assert told == [("chat", True), ("chat", False), (now_of, True)]


def test_what_a_list_lacks_is_told() -> None:
    store = ObjectStore(without_version)
    store.put(raw("a"))
    store.put(raw("b"))
    assert [one["metadata"]["name"] for one in store.absent([("shop", "b")])] == ["a"]


def test_whoever_changes_the_store_what_is_there_and_what_is_gone_is_told() -> None:
    told: list[tuple[str, bool]] = []
    store = ObjectStore(without_version, lambda one, there: told.append((one["metadata"]["uid"], there)))
    store.put(raw(version=1))
    store.put(raw(version=2))
    store.update(raw(version=3, spec="written"))
    store.put(raw(version=4, uid="v"))
    store.drop(("shop", "a"))
    store.drop(("shop", "a"))
    assert told == [("u", True), ("u", True), ("u", False), ("v", True), ("v", False)]
