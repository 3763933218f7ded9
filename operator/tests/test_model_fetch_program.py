"""What the container that fetches a model does around the library that downloads."""

import fcntl
import json
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

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


def test_replicas_that_start_at_once_fetch_a_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetches: list[str] = []

    def fetch(*given: str) -> None:
        fetches.append(given[0])
        deadline = time.monotonic() + 30
        while printed().count("waiting for the replica") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        write_model(Path(given[2]))

    said: list[str] = []

    def printed() -> str:
        said.append(capsys.readouterr().out)
        return "".join(said)

    monkeypatch.setattr(model_fetch_program, "fetch", fetch)
    folder = str(tmp_path / "org--model" / "main")
    with ThreadPoolExecutor(3) as replicas:
        found = list(replicas.map(lambda _: model_fetch_program.main("org/model", "main", folder), range(3)))
    assert fetches == ["org/model"]
    assert len(set(found)) == 1
    assert printed().count("is there") == 3


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


def killed_fetch(folder: Path) -> list[Path]:
    """What the library leaves of a download when its process is killed: names that it never takes again."""
    cache = folder / ".cache" / "huggingface" / "download" / "part"
    cache.mkdir(parents=True)
    left = [
        cache / "x.abc.12345678.incomplete",
        cache / "model-2.safetensors.lock",
        cache / "model-1.safetensors.metadata",
    ]
    for one in left:
        one.write_text("x")
    return left


def test_what_a_killed_fetch_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete, lock, finished = killed_fetch(tmp_path / "main")
    there: list[list[bool]] = []

    def fetch(*_: str) -> None:
        there.append([one.exists() for one in (incomplete, lock, finished)])

    monkeypatch.setattr(model_fetch_program, "fetch", fetch)
    model_fetch_program.main("org/model", "main", str(tmp_path / "main"))
    assert there == [[False, False, True]], "before the disk fills again, and whole files are kept"


def test_without_locks_what_another_replica_may_be_fetching_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    left = killed_fetch(tmp_path / "main")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.setattr(model_fetch_program, "fetch", lambda *_: None)
    model_fetch_program.main("org/model", "main", str(tmp_path / "main"))
    assert [one.exists() for one in left] == [True, True, True]


@pytest.mark.parametrize("config", ["[]", "{", '{"layer_types": 3}'], ids=["a list", "no JSON", "another form"])
def test_a_config_that_cannot_be_read_stops_nothing(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert model_fetch_program.look_at(str(tmp_path)).get("config") in (None, {})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
CONFIGS = JSON | st.dictionaries(st.sampled_from([*model_fetch_program.TELLING, "quantization_config"]), JSON)


def header(about: Any) -> bytes:
    written = json.dumps(about).encode()
    return struct.pack("<Q", len(written)) + written


@given(
    config=st.binary(max_size=20) | CONFIGS.map(lambda it: json.dumps(it).encode()),
    weights=st.binary(max_size=20)
    | JSON.map(header)
    | st.dictionaries(st.text(), st.fixed_dictionaries({"dtype": JSON, "shape": JSON})).map(header),
)
@example(config=b"{}", weights=header({"a": {"shape": [1]}}))
@example(config=b"{}", weights=b"version https://git-lfs.github.com/spec/v1")
@example(config=b"{}", weights=b"\xff" * 8)
@example(config=b"{}", weights=header({"a": {"dtype": "BF16", "shape": [10**4000, 10**4000]}}))
@example(config=b'{"layer_types": [1, "a"]}', weights=b"")
@example(config=b"[" * 100_000, weights=b"")
def test_a_model_that_was_fetched_is_there_whatever_its_files_say(
    config: bytes, weights: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_bytes(config)
    (folder / "model.safetensors").write_bytes(weights)
    said = json.loads(model_fetch_program.told({"source": "org/model", "revision": "main"}, str(folder)))
    assert (said["source"], said["revision"]) == ("org/model", "main")


def test_no_more_than_the_file_is_read_for_its_header(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(ValueError, match=r"model\.safetensors has no header"):
        model_fetch_program.elements(str(tmp_path))


def test_what_nobody_reads_is_left_out_and_layers_are_counted_by_type(tmp_path: Path) -> None:
    write_model(
        tmp_path, {"model_type": "olmo3", "architectures": ["Olmo3"], "text_config": {}, "layer_types": ["b", "a", "b"]}
    )
    assert model_fetch_program.look_at(str(tmp_path))["config"] == {
        "model_type": "olmo3",
        "layer_types": {"a": 1, "b": 2},
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


def test_a_replica_that_shall_end_does_not_wait_for_one_that_fetches(tmp_path: Path) -> None:
    with open(tmp_path / "main.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = [sys.executable, str(model_fetch_program.__file__), "org/model", "main", str(tmp_path / "main")]
        waiting = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"waiting for the replica that fetches it\n"
        waiting.terminate()
        assert waiting.wait(10) == 143
        waiting.stdout.close()
