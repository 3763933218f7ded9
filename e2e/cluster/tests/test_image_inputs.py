import re
import shutil
from pathlib import Path

import pytest

from workslice_cluster import image_inputs, images
from workslice_cluster.image_inputs import IMAGES, export_command, tag
from workslice_cluster.repository import repository


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in (
        "images",
        "crds",
        "operator",
        "router",
        "e2e/cluster/workslice_cluster",
        "e2e/simulator/engine_sim",
        ".dockerignore",
        "pyproject.toml",
    ):
        source = repository() / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    return tmp_path


def tags(checkout: Path, *, base: str = "base", requirements: str = "kopf==1") -> dict[str, str]:
    return {
        name: tag(image, repository=checkout, base=base, requirements=requirements) for name, image in IMAGES.items()
    }


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("path", "images_changed"),
    [
        ("crds/workslice_api/__init__.py", {"operator", "router"}),
        ("operator/workslice_operator/__init__.py", {"operator"}),
        ("router/workslice_router/__init__.py", {"router"}),
        ("images/router/Dockerfile", {"router"}),
        ("images/vllm/serve_on_cpu.py", {"vllm"}),
        ("e2e/cluster/workslice_cluster/device_plugin.py", {"device-plugin"}),
        ("e2e/cluster/workslice_cluster/bring_up.py", set()),
        ("e2e/simulator/engine_sim/scheduler.py", {"engine-sim"}),
        (".dockerignore", {"operator", "router", "vllm", "engine-sim", "device-plugin"}),
        ("pyproject.toml", set()),
        ("images/vllm/cpu.lock", set()),
    ],
)
def test_a_changed_file_changes_the_tags_of_the_images_it_goes_into(
    checkout: Path, path: str, images_changed: set[str]
) -> None:
    before = tags(checkout)
    with (checkout / path).open("a") as file:
        file.write("\n# changed\n")
    assert changed(before, tags(checkout)) == images_changed


def test_a_new_module_changes_the_tag_and_byte_code_does_not(checkout: Path) -> None:
    before = tags(checkout)
    (checkout / "router/workslice_router/__pycache__").mkdir(exist_ok=True)
    (checkout / "router/workslice_router/__pycache__/new.pyc").touch()
    assert changed(before, tags(checkout)) == set()
    (checkout / "router/workslice_router/new.py").touch()
    assert changed(before, tags(checkout)) == {"router"}


def test_another_base_image_and_other_locked_packages_change_the_tag(checkout: Path) -> None:
    before = tags(checkout)
    assert changed(before, tags(checkout, base="other")) == set(IMAGES)
    assert changed(before, tags(checkout, requirements="kopf==2")) == set(IMAGES)


def test_what_a_dockerfile_copies_from_the_checkout_is_an_input_of_its_tag() -> None:
    decided_elsewhere = {
        "pyproject.toml",  # goes in through the exported requirements
        "uv.lock",
        "images/vllm/cpu.lock",  # only in the variant that installs the environment
        "images/vllm/shim/pyproject.toml",
    }
    for image in IMAGES.values():
        dockerfile = (repository() / "images" / image.name / "Dockerfile").read_text()
        copies = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", dockerfile, flags=re.MULTILINE)
        copied = {path for line in copies for path in line.split()}
        assert copied - decided_elsewhere == set(image.sources)


@pytest.mark.parametrize("name", ["operator", "router", "engine-sim", "device-plugin"])
def test_the_dockerfile_exports_the_lock_with_the_options_of_the_tag(name: str) -> None:
    dockerfile = " ".join((repository() / "images" / name / "Dockerfile").read_text().replace("\\\n", " ").split())
    for packages in filter(None, (IMAGES[name].packages, IMAGES[name].compiler)):
        options = export_command(Path("uv"), packages)
        assert " ".join(str(word).replace("=", " ") for word in options) in dockerfile


def test_the_device_plugin_image_has_every_module_that_the_device_plugin_imports() -> None:
    sources = {Path(source).stem for source in IMAGES["device-plugin"].sources}
    for source in IMAGES["device-plugin"].sources:
        text = (repository() / source).read_text()
        lines = re.findall(
            r"^(?:from workslice_cluster import (.+)|from workslice_cluster\.(\w+) import)", text, re.MULTILINE
        )
        assert {name.strip() for several, one in lines for name in (several or one).split(",")} <= sources


def test_the_device_plugin_image_installs_what_speaks_grpc_and_no_more() -> None:
    names = set(
        re.findall(r"^([a-z0-9-]+)==", images.requirements(IMAGES["device-plugin"].packages), flags=re.MULTILINE)
    )
    assert names == {"grpcio", "protobuf", "typing-extensions"}


def test_the_simulated_engine_s_image_installs_a_web_server_and_nothing_of_a_model() -> None:
    names = set(re.findall(r"^([a-z0-9-]+)==", images.requirements(IMAGES["engine-sim"].packages), flags=re.MULTILINE))
    assert {"uvicorn", "starlette", "prometheus-client"} <= names
    assert not {"torch", "vllm", "kopf", "kubernetes"} & names


def test_the_router_image_installs_neither_kopf_nor_kubernetes() -> None:
    locked = images.requirements(IMAGES["router"].packages)
    names = set(re.findall(r"^([a-z0-9-]+)==", locked, flags=re.MULTILINE))
    assert {"httptools", "uvloop", "pydantic"} <= names
    assert not {"kopf", "kubernetes", "pytest"} & names


def test_the_operator_image_installs_kopf_with_hashes_and_no_development_packages() -> None:
    locked = images.requirements(IMAGES["operator"].packages)
    names = set(re.findall(r"^([a-z0-9-]+)==", locked, flags=re.MULTILINE))
    assert {"kopf", "kubernetes"} <= names
    assert not {"pytest", "mypy", "workslice"} & names
    assert locked.count("--hash=sha256:") >= len(names)


def test_every_image_has_a_dockerfile() -> None:
    folders = {path.parent.name for path in (repository() / "images").glob("*/Dockerfile")}
    assert set(image_inputs.IMAGES) <= folders
