"""A model that the demo does not have is refused before anything is built, with the names that it has."""

import pytest
from demo import __main__ as demo
from demo import example_manifests


def test_the_demo_says_which_models_it_has_and_that_nothing_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEMO_MODEL", "gpt4")
    assert demo.main() == 2
    said = capsys.readouterr().err
    assert said == (
        "There is no model 'gpt4' for the demo, so nothing was started: run `DEMO_MODEL=tiny make demo` or "
        "`DEMO_MODEL=smollm2 make demo`.\n"
    )


def test_the_example_manifests_end_with_a_sentence_and_print_nothing_that_could_be_applied(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert example_manifests.main(["gpt4"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "error: there is no model 'gpt4'; there are: tiny, smollm2\n")
