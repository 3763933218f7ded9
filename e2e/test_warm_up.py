"""A replica of a profile with `engine.warmup` has answered requests before it is Ready, and has the prefixes in its cache."""

from typing import Any

import pytest
from demo.installation import cluster_tool

import manifests
from installed import Installation
from scratch import Scratch
from workslice_cluster import images

SYSTEM = "You are the assistant of $(HOME) & Co. Be brief and kind. " * 20
PROMPT = "Once upon a time there was a station on a hill. " * 20
PREFIXES = [{"text": SYSTEM}, {"text": PROMPT, "kind": "Prompt"}]
REFUSED = "refused"
CONTEXT = 64


@pytest.fixture(scope="module")
def pools(module_scratch: Scratch) -> Scratch:
    """A pool of a real engine, and one of a simulated engine whose warm-up is longer than its context; they start side by side."""
    image = module_scratch.engine_image
    warmed = manifests.engine(image, "--enable-prompt-tokens-details") | {"warmup": {"prefixes": PREFIXES}}
    module_scratch.profile(engine=warmed, slice_profile="1g.10gb")
    module_scratch.pool()
    archive, simulator = images.ensure("engine-sim")
    cluster_tool("load", str(archive))
    refused = refused_profile(module_scratch, simulator, {"prefixes": PREFIXES})
    module_scratch.cluster.apply([refused])
    module_scratch.profiles.append(refused["metadata"]["name"])
    small = {"name": "any", "maxTotalTokens": CONTEXT}
    module_scratch.pool(REFUSED, profile=refused["metadata"]["name"], model=REFUSED, requestClass=small)
    return module_scratch


def refused_profile(scratch: Scratch, simulator: str, warmup: dict[str, Any]) -> dict[str, Any]:
    return manifests.profile(
        f"{scratch.namespace}-{REFUSED}",
        simulator,
        engine=manifests.engine(simulator) | {"warmup": warmup},
        slice_profile="1g.10gb",
        memory={"host": "256Mi", "kvCache": "128Mi"},
        workspace={"maxTokens": CONTEXT, "maxConcurrent": 8},
    )


def cached_tokens(usage: Any) -> int:
    return int(usage.prompt_tokens_details.cached_tokens or 0)


def test_the_first_requests_find_their_beginnings_cached(installation: Installation, pools: Scratch) -> None:
    pools.wait_for("Ready", "True", "PoolReady", seconds=300)
    client, model = installation.client(), pools.namespace
    messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Who are you?"}]
    chat = client.chat.completions.create(model=model, messages=messages, max_tokens=2)
    completion = client.completions.create(model=model, prompt=f"{PROMPT}One day", max_tokens=2)
    for usage in (chat.usage, completion.usage):
        assert usage is not None
        # The cache knows whole blocks, of 128 tokens on the CPU.
        assert cached_tokens(usage) >= usage.prompt_tokens - 160 > 0


@pytest.mark.soak  # three tries of the kubelet, and a new start
def test_an_engine_that_refuses_its_warm_up_says_why_until_that_is_corrected(pools: Scratch) -> None:
    said = pools.wait_for("EnginesReady", "False", "WarmUpFailed", pool=REFUSED, seconds=120)
    assert "was not warmed up: /v1/chat/completions answered 400: " in said
    assert "correct engine.warmup of the profile" in said
    (pod,) = (one for one in pools.pods() if one["metadata"]["labels"]["workslice.dev/pool"] == REFUSED)
    pools.cluster.apply([refused_profile(pools, pod["spec"]["containers"][0]["image"], {})])
    pools.wait_for("Ready", "True", "PoolReady", pool=REFUSED, seconds=90)
