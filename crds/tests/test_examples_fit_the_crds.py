"""The examples, and the YAML and commands of the pages that people start with, fit the code."""

import re
import string
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = {
    "ENGINE_IMAGE": "registry.example.com/vllm:1",
    "MODELS_DIRECTORY": "/models",
    "MODEL": "tiny",
    "SHORT_SLICE": "1g.10gb",
    "LONG_SLICE": "3g.40gb",
}
EXAMPLES = sorted((ROOT / "examples").rglob("*.yaml"))
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
MODULE_FOLDERS = ("", "crds", "operator", "router", "e2e/cluster")


def schemas() -> dict[str, Any]:
    found = {}
    for file in (ROOT / "crds").glob("*.yaml"):
        crd = yaml.safe_load(file.read_text())["spec"]
        schema = crd["versions"][0]["schema"]["openAPIV3Schema"]
        found[crd["names"]["kind"]] = closed(schema)
    return found


def closed(schema: Any) -> Any:
    """The schema as the API server applies it under strict validation: no unknown fields."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if "properties" in inner and inner.get("type") == "object":
        inner["additionalProperties"] = False
    return inner


def check(document: dict[str, Any]) -> None:
    schema = schemas().get(document["kind"])
    if schema is not None:
        jsonschema.validate({key: value for key, value in document.items() if key != "metadata"}, schema)


@pytest.mark.parametrize("file", EXAMPLES, ids=[str(file.relative_to(ROOT)) for file in EXAMPLES])
def test_every_example_fits_the_schema(file: Path) -> None:
    text = string.Template(file.read_text()).substitute(VARIABLES)
    documents = list(yaml.safe_load_all(text))
    assert documents
    for document in documents:
        check(document)


def test_a_class_of_an_example_fits_the_context_of_its_profile() -> None:
    documents = [
        document
        for file in EXAMPLES
        for document in yaml.safe_load_all(string.Template(file.read_text()).substitute(VARIABLES))
    ]
    contexts = {
        d["metadata"]["name"]: d["spec"]["workspace"]["maxTokens"] for d in documents if d["kind"] == "WorkspaceProfile"
    }
    pools = [d["spec"] for d in documents if d["kind"] == "WorkspacePool"]
    assert len(pools) == 4
    for pool in pools:
        assert pool["requestClass"]["maxTotalTokens"] <= contexts[pool["profileRef"]["name"]]


def test_the_pool_in_the_readme_fits_the_schema() -> None:
    block = (ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    document = yaml.safe_load(block)
    assert document["kind"] == "WorkspacePool"
    check(document)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_make_command_of_a_page_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`|DEMO_MODEL=smollm2 )make ([a-z0-9-]+)", page.read_text(), re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_module_that_a_page_runs_exists(page: Path) -> None:
    ours = r"python -m ((?:demo|workslice_[a-z]+)(?:\.[a-z_]+)?)"
    named = {name.replace(".", "/") for name in re.findall(ours, page.read_text())}
    files = {name: [ROOT / folder / name for folder in MODULE_FOLDERS] for name in named}
    missing = [n for n, paths in files.items() if not any(p.with_suffix(".py").exists() or p.is_dir() for p in paths)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    dead = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert dead == []
