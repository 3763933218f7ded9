"""Things that are built and cached: keys that change with their inputs, archives that containerd reads."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from workslice_cluster import pause_image
from workslice_cluster.binaries import METRICS_SERVER, MODULES, TABLE, Module, content_hash
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.image_import import names_in

MODULE = Module("m", {"program": "."})


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "go.mod").write_text("module m\n")
    (tmp_path / "main.go").write_text("package main\n")
    return tmp_path


def test_binaries_are_found_again_when_nothing_changed(sources: Path) -> None:
    before = content_hash(MODULE, sources, "go1.26.8")
    (sources / "README.md").write_text("not an input")
    assert content_hash(MODULE, sources, "go1.26.8") == before


def test_binaries_are_built_anew_when_an_input_changes(sources: Path) -> None:
    keys = {content_hash(MODULE, sources, "go1.26.8"), content_hash(MODULE, sources, "go1.26.9")}
    keys.add(content_hash(Module("m", {"program": "."}, "-s"), sources, "go1.26.8"))
    for name in ("go.mod", "go.sum", "main.go"):
        (sources / name).write_text(f"// {name}\n")
        keys.add(content_hash(MODULE, sources, "go1.26.8"))
    assert len(keys) == 6


@pytest.mark.parametrize("module", [*TABLE, METRICS_SERVER], ids=lambda module: module.name)
def test_every_module_pins_its_dependencies(module: Module) -> None:
    folder = MODULES / module.name
    needs_sums = "require" in (folder / "go.mod").read_text()
    assert (folder / "go.sum").exists() == needs_sums


def test_the_pause_archive_is_an_image_that_names_itself(tmp_path: Path) -> None:
    file = tmp_path / "pause.oci.tar"
    file.write_bytes(pause_image.archive(b"program"))
    ((name, digest),) = names_in(file).items()
    assert name == "registry.k8s.io/pause:3.10"
    with tarfile.open(file) as archive:
        blobs = {member.name: archive.extractfile(member) for member in archive if member.name.startswith("blobs/")}
        contents = {path: blob.read() for path, blob in blobs.items() if blob}
    for path, content in contents.items():
        assert path == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    manifest = json.loads(contents[f"blobs/{digest.replace(':', '/')}"])
    layer = contents[f"blobs/{manifest['layers'][0]['digest'].replace(':', '/')}"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        assert files.getmember("pause").mode == 0o755


def test_the_pause_archive_depends_on_the_program_alone() -> None:
    assert pause_image.archive(b"program") == pause_image.archive(b"program")
    assert pause_image.archive(b"program") != pause_image.archive(b"other")


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(ClusterError, match="is not an OCI archive"):
        names_in(tmp_path / "x")
    with pytest.raises(ClusterError, match="does not exist"):
        names_in(tmp_path / "y")


def test_a_failed_program_is_quoted_with_its_last_words() -> None:
    with pytest.raises(ClusterError, match=r"it broke: sh -c .* ended with status 3\n    sorry"):
        run(["sh", "-c", "echo sorry >&2; exit 3"], failure="it broke")


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ClusterError, match="no-such-program is not installed"):
        run(["no-such-program"], failure="it broke")


def test_a_program_that_hangs_is_ended() -> None:
    with pytest.raises(ClusterError, match="took longer"):
        run(["sleep", "60"], failure="it broke", timeout=0.2)
