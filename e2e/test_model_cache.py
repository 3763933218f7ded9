"""A hub model is fetched once into the volume of `model.cache`, whatever the number of replicas; the hub is a pod that counts."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo.question import SHORT_QUESTION, ask

import manifests
import model_hub
from installed import MODEL, Installation
from probe_pods import address, caller
from scratch import Scratch
from workslice_cluster import engine_environment
from workslice_operator import model_fetch_program

pytestmark = pytest.mark.embedded  # the volume is a folder of this machine
SOURCE = "org/tiny"
COUNTS = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/fetched').read().decode())"


@pytest.fixture
def endpoint(scratch: Scratch, installation: Installation) -> Iterator[str]:
    """The address of a pod that is a hub of the tiny model."""
    pod = caller("hub", scratch.namespace, installation.images.router)
    (container,) = pod["spec"]["containers"]
    program = Path(model_hub.__file__).read_text().replace("$", "$$")
    container["command"] = ["python3", "-c", program, "8000", SOURCE, f"/models/{MODEL}"]
    container["volumeMounts"] = [{"name": "models", "mountPath": "/models", "readOnly": True}]
    container["readinessProbe"] = {"httpGet": {"path": "/fetched", "port": 8000}, "periodSeconds": 1}
    pod["spec"]["volumes"] = [{"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}}]
    scratch.cluster.apply([pod])
    yield f"http://{address(scratch.cluster, scratch.namespace, 'hub')}:8000"
    scratch.cluster.kubectl("delete", "pod", "hub", "-n", scratch.namespace)


def cached(endpoint: str, image: str, source: str = SOURCE) -> dict[str, Any]:
    """The parts of a profile whose model comes from a hub."""
    variables = [{"name": "HF_ENDPOINT", "value": endpoint}]
    return {
        "model": {"source": source, "cache": {"claim": "cache"}},
        "engine": manifests.engine(image) | {"env": variables},
        "slice_profile": "1g.10gb",
    }


def test_replicas_fetch_each_file_once_and_the_profile_learns_the_shape(
    scratch: Scratch, endpoint: str, installation: Installation, models_folder: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)  # engines run as a user of their own
    scratch.cluster.apply(manifests.volume(scratch.namespace, "cache", tmp_path, "ReadWriteMany"))

    scratch.profile(**cached(endpoint, scratch.engine_image, source="org/typo"))
    scratch.pool("typo")
    said = scratch.wait_for("EnginesReady", "False", "ModelFetchFailed", pool="typo", saying="Repository Not Found")
    assert f"{endpoint}/api/models/org/typo" in said
    assert "correct model.source" in said
    scratch.cluster.kubectl("delete", "wspool", "typo", "-n", scratch.namespace)

    profile = scratch.profile(**cached(endpoint, scratch.engine_image))
    scratch.pool(replicas=2)
    scratch.wait_for("Ready", "True", "PoolReady", saying="2 of 2", seconds=300)
    assert ask(installation.client(), scratch.namespace, SHORT_QUESTION, stream=False, max_tokens=4).completion_tokens
    counts = json.loads(scratch.cluster.kubectl("exec", "hub", "-n", scratch.namespace, "--", "python3", "-c", COUNTS))
    files = [one for one in (models_folder / MODEL).iterdir() if one.is_file()]
    assert counts == {one.name: 1 for one in files}

    found = scratch.cluster.get("wsprof", profile)["status"]["model"]
    config = json.loads((models_folder / MODEL / "config.json").read_text())
    assert (found["source"], found["revision"]) == (SOURCE, "main")
    assert found["shape"]["layers"] == config["num_hidden_layers"]
    # In bfloat16; what else is in the file is its header.
    assert found["shape"]["parameters"] * 2 == pytest.approx(
        (models_folder / MODEL / "model.safetensors").stat().st_size, rel=0.02
    )


def test_a_gated_model_wants_the_token_which_is_repeated_nowhere(models_folder: Path, tmp_path: Path) -> None:
    program = Path(model_fetch_program.__file__).read_text()
    said = tmp_path / "said"
    words = [program.replace(model_fetch_program.TERMINATION_LOG, str(said)), SOURCE, "main", str(tmp_path / "model")]

    def fetch(token: str) -> tuple[int, str]:
        home = {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}", "HF_HOME": str(tmp_path), "HF_TOKEN": token}
        command = [str(engine_environment.python()), "-c", *words]
        ended = subprocess.run(command, env=home, capture_output=True, text=True, check=False, timeout=120)
        assert token not in ended.stdout + ended.stderr
        return ended.returncode, said.read_text()

    with model_hub.Hub("127.0.0.1", 0, SOURCE, models_folder / MODEL, token="s3cret") as hub:
        threading.Thread(target=hub.serve_forever, args=(0.05,), daemon=True).start()
        status, why = fetch("wr0ng")
        assert (status, why.startswith("GatedRepoError: 401 "), "wr0ng" in why) == (1, True, False)
        status, found = fetch("s3cret")
        hub.shutdown()
    assert (status, json.loads(found)["source"]) == (0, SOURCE)
