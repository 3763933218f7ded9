"""A change that replaces engines loses no request, holds the size meanwhile, and stops at the first replica that does not come up.

The turns of a session stay on one of the pool's replicas for as long as it serves.
"""

import pytest
from demo.load import Load
from demo.question import ask
from demo.waiting import NotYet, wait_until

import manifests
from installed import Installation
from long_streams import LongStreams
from router_accounts import in_rotation
from scratch import Scratch

MODEL = "rollout"
TOKENS = 4000
SESSIONS = 12


@pytest.fixture(scope="module")
def pool(module_scratch: Scratch) -> Scratch:
    """A pool of two replicas; with the demo's it holds every small slice, so no rollout can use a spare one."""
    apply_engine(module_scratch)
    module_scratch.profiles = [module_scratch.namespace]
    module_scratch.pool(model=MODEL, replicas=2, drain={"timeout": "60s"})
    module_scratch.wait_for("Ready", "True", "PoolReady", seconds=240)
    return module_scratch


def apply_engine(scratch: Scratch, *extra_args: str, **env: str) -> None:
    """Apply the namespace's profile with these engine settings."""
    engine = manifests.engine(scratch.engine_image, *extra_args)
    engine["env"] = [{"name": name, "value": value} for name, value in env.items()]
    scratch.cluster.apply(
        [manifests.profile(scratch.namespace, scratch.engine_image, slice_profile="1g.10gb", engine=engine)]
    )


def replicas(scratch: Scratch) -> set[str]:
    return {pod["metadata"]["uid"] for pod in scratch.pods()}


@pytest.fixture(scope="module")
def homes(installation: Installation, pool: Scratch) -> dict[int, str]:
    """The replica of each session before any change."""

    def both_in_rotation() -> None:
        if (found := in_rotation(pool.cluster, f"{pool.namespace}/pool")) != replicas(pool):
            raise NotYet(f"in rotation: {found}")

    wait_until("both replicas to be in rotation", both_in_rotation, seconds=20, every=0.3)
    return next_turns(installation)


def next_turns(installation: Installation) -> dict[int, str]:
    """The replica that answers the next question of each session."""

    def answered_by(session: int) -> str:
        headers = {"x-workslice-session": f"session {session}"}
        return ask(installation.client(), MODEL, "And then?", stream=False, max_tokens=2, extra_headers=headers).replica

    return {session: answered_by(session) for session in range(SESSIONS)}


def test_sessions_are_shared_out_among_the_replicas_and_their_turns_stay_where_the_first_one_was(
    installation: Installation, pool: Scratch, homes: dict[int, str]
) -> None:
    assert set(homes.values()) == replicas(pool), "all sessions are on one replica"
    for _ in range(3):
        assert next_turns(installation) == homes


def test_a_new_version_that_never_comes_up_leaves_the_other_replica_on_the_old_one_and_says_why(
    installation: Installation, pool: Scratch, homes: dict[int, str]
) -> None:
    before = replicas(pool)
    apply_engine(pool, "--no-such-flag-exists=1")
    message = pool.wait_for("EnginesReady", "False", "EngineFailed", seconds=120)
    assert "no-such-flag-exists" in message
    assert message.endswith("until then 1 replica stays on the previous version")
    (kept,) = before & replicas(pool)
    for _ in range(5):
        assert ask(installation.client(), MODEL, "Still there?", stream=True, max_tokens=4).replica == kept
    assert set(next_turns(installation).values()) == {kept}
    apply_engine(pool)
    pool.wait_for("Ready", "True", "PoolReady", seconds=240)
    assert kept in replicas(pool), "the replica that served was never touched"
    now = next_turns(installation)
    assert {now[session] for session, home in homes.items() if home == kept} == {kept}, "its sessions never moved"


def test_replacing_every_engine_loses_no_request_and_holds_the_size(installation: Installation, pool: Scratch) -> None:
    before = replicas(pool)

    def deployment_size() -> int:
        return int(pool.cluster.get("deployment", "pool-engine", pool.namespace)["spec"]["replicas"])

    def all_new() -> None:
        now = replicas(pool)
        if now & before or not now:
            raise NotYet(f"{len(now & before)} old replicas, {len(now - before)} new ones")

    with Load(installation.client(), MODEL, in_flight=2, max_tokens=64) as load:
        streams = LongStreams(installation.client(), MODEL, count=2, tokens=TOKENS)
        load.wait_for_more(4)
        apply_engine(pool, MARK_OF_THE_TEST="1")
        pool.cluster.kubectl("scale", "wspool", "pool", "-n", pool.namespace, "--replicas=1")
        pool.wait_for("Draining", "False", "HeldByRollout")
        assert deployment_size() == 2
        wait_until("new engines everywhere", all_new, seconds=300)
        pool.wait_for("Ready", "True", "PoolReady", seconds=120)
        wait_until("the size to follow after the rollout", lambda: shrunk(deployment_size()), seconds=90)
        load.wait_for_more(4)
    assert load.failures == []
    assert streams.complete(streams.answers(60))


def shrunk(size: int) -> None:
    if size != 1:
        raise NotYet(f"the Deployment asks for {size}")
