"""Rules of the source tree that no linter holds."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    "crds/workslice_api",
    "operator/workslice_operator",
    "router/workslice_router",
    "e2e/cluster/workslice_cluster",
)


def tracked(*patterns: str) -> list[Path]:
    out = subprocess.run(
        ["git", "ls-files", "--", *patterns], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / line for line in out.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("folder", ["operator", "router", "crds", "e2e", "e2e/cluster"])
def test_parent_folders_are_no_packages(folder: str) -> None:
    """operator/__init__.py would shadow the standard library's operator module; the others would break the editable install."""
    assert not (ROOT / folder / "__init__.py").exists()


def test_every_package_is_typed() -> None:
    assert [package for package in PACKAGES[:3] if not (ROOT / package / "py.typed").exists()] == []


def test_no_source_file_is_longer_than_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): n for path in tracked("*.py") if (n := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def test_test_files_have_unique_names_because_pytest_imports_them_by_name() -> None:
    names = Counter(
        path.name for path in tracked("*.py") if path.parent.name == "tests" or path.name.startswith("test_")
    )
    assert [name for name, count in names.items() if count > 1 and name != "conftest.py"] == []


@pytest.mark.parametrize(
    ("package", "module", "homes"),
    [
        ("operator/workslice_operator", "kopf", {"handlers.py"}),
        ("operator/workslice_operator", "kubernetes", {"kube.py"}),
        ("operator/workslice_operator", "httpx", {"signals.py", "engine_metrics.py"}),
        ("router/workslice_router", "httpx", {"kubernetes_watch.py"}),
    ],
)
def test_outside_libraries_have_one_home(package: str, module: str, homes: set[str]) -> None:
    pattern = re.compile(rf"^\s*(import|from) {module}\b", re.MULTILINE)
    users = {path.name for path in (ROOT / package).rglob("*.py") if pattern.search(path.read_text())}
    assert users <= homes


def test_no_path_of_one_machine_is_in_the_tree() -> None:
    pattern = re.compile(r"(^|[^.\w])/(work|root|home/[a-z]+)/")
    found = []
    for path in tracked():
        if path.suffix in {".sum", ".lock", ".png"} or path == Path(__file__):
            continue
        if any(pattern.search(line) for line in path.read_text(errors="replace").splitlines()):
            found.append(str(path.relative_to(ROOT)))
    assert found == []
