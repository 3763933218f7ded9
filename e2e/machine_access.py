"""Which tests act on the machine under the embedded cluster, so that they cannot run on another cluster."""

import pytest

MODULES = {"bare_api", "exposed_metrics", "host_processes", "process_usage", "router_accounts", "second_cluster"}
"""Modules that signal processes, start clusters, or call pods by their addresses."""
FUNCTIONS = {"cluster_tool"}
"""Functions of demo.installation that do so."""
FIXTURES = {"spare_node"}
"""Fixtures of conftest.py that do so."""


def acts_on_the_machine(test: pytest.Item) -> bool:
    """Whether the test's file imports something that needs the machine: nobody has to remember a mark."""
    assert isinstance(test, pytest.Function)
    if FIXTURES & set(test.fixturenames):
        return True
    for name, value in vars(test.module).items():
        home = getattr(value, "__module__", None) or getattr(value, "__name__", None)
        if home in MODULES or name in FUNCTIONS:
            return True
    return False
