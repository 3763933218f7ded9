"""vLLM ends an answer at its context without a word; the routers count it, and the next such request gets more room."""

from typing import Any

import httpx
import pytest
from demo.waiting import NotYet, wait_until

import manifests
from exposed_metrics import sample
from installed import Installation
from router_accounts import router_pods, wait_until_accounts_are_zero
from scratch import Scratch
from workslice_api.names import ROUTER_ADMIN_PORT

SMALL, LARGE = 1024, 8192
END_OF_ANSWER = 4
"""Token of the test's model. It is made unlikely here: a request with ignore_eos would teach the routers nothing."""


@pytest.fixture(scope="module")
def sizes(module_scratch: Scratch) -> Scratch:
    """A small and a large pool of one model."""
    namespace = module_scratch.namespace
    for name, tokens in (("small", SMALL), ("large", LARGE)):
        profile = f"{namespace}-{name}"
        shape = {"maxTokens": tokens, "maxConcurrent": 8}
        one = manifests.profile(profile, module_scratch.engine_image, slice_profile="1g.10gb", workspace=shape)
        module_scratch.cluster.apply([one])
        module_scratch.profiles.append(profile)
        module_scratch.pool(name, profile=profile, requestClass={"name": name, "maxTotalTokens": tokens})
    for name in ("small", "large"):
        module_scratch.wait_for("Ready", "True", "PoolReady", pool=name, seconds=240)
    return module_scratch


def question(model: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Go on"}]
    return {"model": model, "messages": messages, "logit_bias": {str(END_OF_ANSWER): -100}, **fields}


def truncated(installation: Installation, pool: str) -> float:
    """Answers of a pool that all routers counted as cut."""
    series = f'workslice_router_truncated_answers_total{{pool="{pool}"}}'
    total = 0.0
    for pod in router_pods(installation.cluster):
        try:
            total += sample(pod["status"].get("podIP"), ROUTER_ADMIN_PORT, series)
        except NotYet as missing:
            if "shows no" not in str(missing):
                raise
    return total


def test_an_answer_that_the_context_cut_is_counted_and_the_next_one_gets_more_room(
    installation: Installation, sizes: Scratch
) -> None:
    small, large = f"{sizes.namespace}/small", f"{sizes.namespace}/large"
    url, before = f"{installation.url}/chat/completions", truncated(installation, small)
    answer = httpx.post(url, json=question(sizes.namespace), timeout=120, trust_env=False)
    assert answer.status_code == 200
    assert (answer.headers["x-workslice-pool"], answer.headers["x-workslice-context-limit"]) == (small, str(SMALL))
    usage = answer.json()["usage"]
    assert answer.json()["choices"][0]["finish_reason"] == "length"
    assert usage["prompt_tokens"] + usage["completion_tokens"] == SMALL
    assert truncated(installation, small) == before + 1

    def goes_to_the_large_pool() -> None:
        """Every router learns from its own answers; the stream is left as soon as its head is there."""
        body = question(sizes.namespace, stream=True)
        with httpx.stream("POST", url, json=body, timeout=120, trust_env=False) as stream:
            pool, limit = stream.headers["x-workslice-pool"], stream.headers["x-workslice-context-limit"]
            if pool == small:
                for _ in stream.iter_bytes():
                    pass
        if (pool, limit) != (large, str(LARGE)):
            raise NotYet(f"it went to {pool}")

    wait_until("a request without max_tokens to go to the large pool", goes_to_the_large_pool, seconds=60)
    wait_until_accounts_are_zero(installation.cluster)


def test_max_tokens_that_do_not_fit_beside_the_prompt_go_to_the_large_pool(
    installation: Installation, sizes: Scratch
) -> None:
    url = f"{installation.url}/chat/completions"
    for tokens, pool in ((SMALL - 100, "small"), (SMALL - 2, "large")):
        body = question(sizes.namespace, max_tokens=tokens)
        answer = httpx.post(url, json=body, timeout=120, trust_env=False)
        assert answer.headers["x-workslice-pool"] == f"{sizes.namespace}/{pool}"
        assert answer.json()["usage"]["completion_tokens"] == tokens
