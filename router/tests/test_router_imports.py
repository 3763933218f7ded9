"""Decisions are pure, and httpx stays out of the data path: held by reading the imports of every module."""

import ast
from pathlib import Path

import pytest

import workslice_router

PACKAGE = Path(workslice_router.__file__).parent
PURE = (
    "admission",
    "affinity",
    "answer_length",
    "choose",
    "class_line",
    "classify",
    "cluster_view",
    "dispatch_cap",
    "ejection",
    "engine_gauges",
    "estimate",
    "json_structure",
    "mean_request",
    "model_list",
    "openai_errors",
    "place_pace",
    "pool_queue",
    "pool_spec",
    "prefix_places",
    "prompt_prefix",
    "quantile_sketch",
    "replica_cap",
    "replica_gauges",
    "replica_limits",
    "replica_load",
    "request_body",
    "request_plan",
    "routing_table",
    "session_places",
    "shown_load",
    "soft_choice",
    "splice",
    "state_document",
    "text_size",
    "usage",
    "virtual_counters",
    "waiting_room",
    "whole_answer",
)
IMPURE = {"asyncio", "httpx", "kopf", "kubernetes", "logging", "os", "random", "socket", "ssl", "time", "uvloop"}


def imports(module: Path) -> set[str]:
    """Top-level names of all packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("name", PURE)
def test_a_decision_uses_no_clock_no_chance_and_no_network_of_its_own(name: str) -> None:
    assert not imports(PACKAGE / f"{name}.py") & IMPURE


def test_only_the_kubernetes_watch_uses_httpx() -> None:
    users = [module.stem for module in sorted(PACKAGE.glob("**/*.py")) if "httpx" in imports(module)]
    assert users == ["kubernetes_watch"]


def test_nothing_imports_a_kubernetes_client_or_the_operator() -> None:
    for module in PACKAGE.glob("**/*.py"):
        assert not imports(module) & {"kopf", "kubernetes", "workslice_operator", "aiohttp", "requests"}
