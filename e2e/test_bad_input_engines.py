"""What vLLM itself refuses reaches the pool's condition in vLLM's words; both engines of this file start side by side."""

import manifests
from scratch import Scratch

SECONDS = 240


def test_the_words_of_a_failing_engine_reach_the_condition(module_scratch: Scratch) -> None:
    scratch = module_scratch
    bad_flag = f"{scratch.namespace}-flag"
    image = scratch.engine_image
    scratch.cluster.apply(
        [
            manifests.profile(
                bad_flag, image, slice_profile="1g.10gb", engine=manifests.engine(image, "--no-such-flag-exists=1")
            )
        ]
    )
    scratch.profile(slice_profile="1g.10gb", model_path="no-such-model")
    scratch.profiles.append(bad_flag)
    scratch.pool("flag", profile=bad_flag, model="bad-flag")
    scratch.pool("model", model="no-such-model")

    said = scratch.wait_for("EnginesReady", "False", "EngineFailed", pool="flag", seconds=SECONDS)
    assert "no-such-flag-exists" in said
    said = scratch.wait_for("EnginesReady", "False", "EngineFailed", pool="model", seconds=SECONDS)
    assert "no-such-model" in said
    assert "Traceback" not in said
