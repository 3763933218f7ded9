"""An API server that forgets, drops, fails and sheds load: the operator misses nothing, asks no more than it may and acts again at once.

Every answer that is not a fault is a real API server's; there are no nodes, for what the operator writes is all that these tests need.
"""

import time
from collections.abc import Callable, Iterator
from itertools import cycle

import pytest
from demo.waiting import NotYet, wait_until

import manifests
from bare_api import BareApi
from bare_pools import CHILD, SOON, idle_pool, wait_for_child
from faulty_api import Answer, Asked, FaultyApi, broken_off, failure, gone, too_many
from operator_process import OperatorProcess, operator_process
from scratch import Scratch


@pytest.fixture(scope="module")
def started(proxy: FaultyApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    with operator_process(tmp_path_factory.mktemp("operator"), proxy.url) as running:
        running.wait_until_it_leads()
        yield running


@pytest.fixture
def operator(started: OperatorProcess) -> Iterator[OperatorProcess]:
    """One operator lives through all these tests, and none of them makes it stumble."""
    yield started
    assert started.alive, started.log.read_text()[-3000:]
    assert started.said("error") == []
    wait_until_it_leads_again(started)


@pytest.fixture
def shop(bare: BareApi, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[Scratch]:
    """A pool at rest."""
    with idle_pool(bare, request.node.name, replicas=0) as made:
        made.wait_for("Ready", "True", "PoolReady")
        yield made


def wait_until_it_leads_again(operator: OperatorProcess) -> None:
    def look() -> None:
        if not operator.leads:
            raise NotYet("it does not lead")

    wait_until("the operator to lead again", look, seconds=SOON, every=0.2)


def watch_is_down(plural: str = "") -> Callable[[Asked], Answer | None]:
    """Watches of a kind of object, or of all, get no answer of use."""
    return lambda asked: failure(503) if asked.is_watch and (not plural or asked.watches(plural)) else None


def forget_at_once(proxy: FaultyApi, plural: str) -> None:
    """Let watches of one kind go on, but not from what they have seen; returns when all of it was listed again."""
    with proxy.faulty(lambda asked: gone() if asked.goes_on(plural) else None) as began:

        def listed() -> None:
            went_on = sum(one.goes_on(plural) for one in proxy.asked_since(began))
            if went_on < 2:  # before the second time it must have listed them
                raise NotYet(f"{went_on} times it wanted to go on")

        wait_until(f"{plural} to be listed again", listed, seconds=SOON, every=0.05)


@pytest.mark.parametrize("plural", ["deployments", "networkpolicies"])
def test_a_child_that_went_while_only_its_watch_was_down_is_made_again(
    shop: Scratch, proxy: FaultyApi, plural: str
) -> None:
    kind = plural.removesuffix("s").replace("policie", "policy")
    before = wait_for_child(shop, kind)
    with proxy.faulty(watch_is_down(plural)):
        proxy.cut(plural)
        delete(shop, kind, CHILD)
    forget_at_once(proxy, plural)
    wait_for_child(shop, kind, but=before)


def test_a_pool_that_went_while_its_watch_was_down_is_forgotten_and_gives_its_model_back(
    bare: BareApi, shop: Scratch, proxy: FaultyApi, operator: OperatorProcess
) -> None:
    other = f"{shop.namespace}-b"
    bare.cluster.apply([manifests.namespace(other), manifests.pool("late", other, shop.namespace, shop.namespace)])
    late = Scratch(bare.cluster, other, shop.engine_image, shop.models)
    late.wait_for("Conflict", "True", "ModelOwnedElsewhere", pool="late", seconds=SOON)
    with proxy.faulty(watch_is_down("workspacepools")):
        proxy.cut("workspacepools")
        delete(shop, "wspool", "pool")
    forget_at_once(proxy, "workspacepools")
    late.wait_for("Conflict", "False", "ModelOwned", pool="late", seconds=SOON)

    def forgotten() -> None:
        users = bare.cluster.get("wsprof", shop.namespace)["status"]["pools"]
        series = [line for line in operator.metrics().splitlines() if f'namespace="{shop.namespace}"' in line]
        if users != [f"{other}/late"] or series:
            raise NotYet(f"pools of the profile {users}, series {series}")

    wait_until("the pool to be forgotten", forgotten, seconds=SOON, every=0.3)
    bare.cluster.kubectl("delete", "wspool", "late", "-n", other)


def test_an_api_server_that_starts_anew_remembers_no_watch_and_nothing_is_missed(
    bare: BareApi, shop: Scratch, proxy: FaultyApi
) -> None:
    before, expired = wait_for_child(shop), proxy.expired
    with proxy.faulty(watch_is_down()):
        proxy.cut()
        delete(shop, "deployment", CHILD)
        shop.pool("new", model=f"{shop.namespace}-new", replicas=3)
        bare.restart()
    wait_for_child(shop, but=before)
    wait_for_child(shop, name="new-engine", replicas=3)
    assert proxy.expired > expired, "the API server itself has said 410 Gone"


@pytest.mark.parametrize("plural", ["workspacepools", "deployments"])
def test_a_watch_that_ends_with_an_error_of_the_server_goes_on(shop: Scratch, proxy: FaultyApi, plural: str) -> None:
    before = wait_for_child(shop)
    with proxy.faulty(lambda asked: broken_off() if asked.goes_on(plural) else None) as began:
        proxy.cut(plural)

        def thrice() -> None:
            if (asked := sum(one.goes_on(plural) for one in proxy.asked_since(began))) < 3:
                raise NotYet(f"{asked} times")

        wait_until("three attempts to go on", thrice, seconds=SOON, every=0.1)
        delete(shop, "deployment", CHILD)
        shop.pool("new", model=f"{shop.namespace}-new")
    wait_for_child(shop, but=before)
    wait_for_child(shop, name="new-engine")


def test_an_api_that_fails_is_asked_seldom_and_what_was_wanted_meanwhile_is_done_after_it(
    shop: Scratch, proxy: FaultyApi, operator: OperatorProcess
) -> None:
    fails_for(12, shop, proxy, operator)


@pytest.mark.soak
def test_an_api_that_fails_for_two_minutes_loses_nothing(
    shop: Scratch, proxy: FaultyApi, operator: OperatorProcess
) -> None:
    fails_for(120, shop, proxy, operator)


def fails_for(seconds: float, shop: Scratch, proxy: FaultyApi, operator: OperatorProcess) -> None:
    """Every request fails for so long, in one way or another; what somebody asks for meanwhile is done soon after."""
    failures = cycle([failure(500), failure(502), failure(503)])
    with proxy.faulty(lambda _: next(failures)) as began:
        proxy.cut()
        shop.pool(replicas=2)

        def over() -> None:
            if time.monotonic() - began < seconds:
                raise NotYet("it goes on")

        wait_until("the end of the outage", over, seconds=seconds + 5, every=0.2)
        asked = proxy.asked_since(began)
        assert operator.alive
    print(f"{len(asked) / seconds:.1f} requests a second during the outage")
    assert len(asked) < 6 * seconds, "that is a hot loop"
    recovered = time.monotonic()
    wait_for_child(shop, replicas=2)
    print(f"acted after {time.monotonic() - recovered:.1f} s")


def test_an_api_that_sheds_load_is_not_asked_again_before_the_time_it_gives(
    shop: Scratch, proxy: FaultyApi, operator: OperatorProcess
) -> None:
    seconds = 3
    with proxy.faulty(lambda _: too_many(seconds)) as began:
        proxy.cut()
        shop.pool(replicas=2)

        def over() -> None:
            if time.monotonic() - began < 3 * seconds:
                raise NotYet("it goes on")

        wait_until("the end of the overload", over, seconds=30, every=0.2)
        asked = proxy.asked_since(began)
    last: dict[tuple[str, str], float] = {}
    for one in asked:
        key = one.path, one.agent  # kopf has a client of its own
        since = one.at - last.get(key, 0.0)
        under_way = since < 0.1  # a look and a watch may ask for the same at the same moment
        assert under_way or since >= seconds - 0.05, f"{one} came too early"
        last[key] = one.at
    assert len(last) > 5, "many were asked for"
    wait_for_child(shop, replicas=2)


def delete(shop: Scratch, kind: str, name: str) -> None:
    shop.cluster.kubectl("delete", kind, name, "-n", shop.namespace)
