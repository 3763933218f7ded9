import runpy

import pytest

from workslice_cluster.repository import repository

server_arguments = runpy.run_path(str(repository() / "images/vllm/serve_on_cpu.py"))["server_arguments"]


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["/models/tiny", "--port", "8000"], ["--model", "/models/tiny", "--port", "8000"]),
        (["owner/name"], ["--model", "owner/name"]),
        (["--model", "/models/tiny"], ["--model", "/models/tiny"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_the_first_word_is_the_model_as_for_vllm_serve(given: list[str], passed_on: list[str]) -> None:
    assert server_arguments(given) == passed_on
