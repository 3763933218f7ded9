"""What the container that fetches a model does around the library that downloads."""

import json
import multiprocessing
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from workslice_operator import model_fetch_program

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "rope_theta": 10_000,
    "quantization_config": {"bits": 4, "x": 1},
}


def write_safetensors(path: Path, **tensors: tuple[str, list[int]]) -> None:
    header = json.dumps({name: {"dtype": dtype, "shape": shape} for name, (dtype, shape) in tensors.items()}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


def write_model(folder: Path, config: Any = CONFIG) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model-1.safetensors", a=("BF16", [3, 4]), b=("I32", [5]))
    write_safetensors(folder / "model-2.safetensors", c=("BF16", [10]), __metadata__=("BF16", [100]))
    write_safetensors(folder / "consolidated.safetensors", a=("BF16", [3, 4]))


def fetch_slowly(source: str, revision: str, folder: str) -> None:
    with open(f"{folder}.fetches", "a") as fetches:
        fetches.write(f"{source} {revision}\n")
    time.sleep(0.3)
    write_model(Path(folder))


def fetch(folder: str) -> None:
    model_fetch_program.fetch = fetch_slowly
    model_fetch_program.main("org/model", "main", folder)


def test_replicas_that_start_at_once_fetch_a_model_once(tmp_path: Path) -> None:
    folder = tmp_path / "org--model" / "main"
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=fetch, args=(str(folder),)) for _ in range(3)]
    for one in started:
        one.start()
    for one in started:
        one.join(30)
    assert [one.exitcode for one in started] == [0, 0, 0]
    assert Path(f"{folder}.fetches").read_text() == "org/model main\n"


def test_every_replica_tells_what_is_known_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_fetch_program, "fetch", lambda *given: write_model(Path(given[2])))
    folder = str(tmp_path / "org--model" / "main")
    first = model_fetch_program.main("org/model", "main", folder)
    monkeypatch.setattr(model_fetch_program, "fetch", None)  # nobody fetches again
    assert model_fetch_program.main("org/model", "main", folder) == first
    assert json.loads(first) == {
        "source": "org/model",
        "revision": "main",
        "config": {"model_type": "llama", "num_hidden_layers": 2, "quantization_config": {"bits": 4}},
        "elements": {"BF16": 22, "I32": 5},
    }


def test_a_fetch_that_breaks_off_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: str) -> None:
        write_model(Path(given[2]))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_fetch_program, "fetch", broken)
    folder = str(tmp_path / "main")
    with pytest.raises(OSError, match="No space left"):
        model_fetch_program.main("org/model", "main", folder)
    again: list[str] = []
    monkeypatch.setattr(model_fetch_program, "fetch", lambda *given: again.append(given[0]))
    model_fetch_program.main("org/model", "main", folder)
    assert again == ["org/model"]


@pytest.mark.parametrize("config", ["[]", "{", '{"text_config": 3}'], ids=["a list", "no JSON", "another form"])
def test_a_config_that_cannot_be_read_stops_nothing(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert model_fetch_program.look_at(str(tmp_path)).get("config") in (None, {})


def test_the_text_part_of_a_model_that_also_sees_is_told(tmp_path: Path) -> None:
    write_model(
        tmp_path, {"model_type": "vision", "text_config": {"num_hidden_layers": 4, "layer_types": ["b", "a", "b"]}}
    )
    assert model_fetch_program.look_at(str(tmp_path))["config"] == {
        "model_type": "vision",
        "text_config": {"num_hidden_layers": 4, "layer_types": ["a", "b"]},
    }


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("GET https://u:pw@hub/a/b?X-Signature=abc&x=1 failed"), "OSError: GET https://hub/a/b failed"),
        (OSError("two\n\nlines"), "https://hub.example.com/x: OSError: two lines"),
        (ModuleNotFoundError(name="huggingface_hub"), "the engine's image has no huggingface_hub"),
    ],
    ids=["secrets in a URL", "no URL", "no library"],
)
def test_an_error_is_told_in_one_line_without_secrets(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://u:pw@hub.example.com/x")
    assert model_fetch_program.in_one_line(error) == said
