"""Which worker of pytest-xdist runs which test.

Files of unit tests go where there is room. What needs the shared cluster comes last, on one worker: those tests share its slices, and
what some measure the others would spoil. Tests that start a second cluster of their own run beside them on another worker, and so do
those that have an API without nodes.
"""

import functools
import re
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

E2E = Path(__file__).parent
SHARED_CLUSTER = "the shared cluster"
SECOND_CLUSTER = "a second cluster"
BARE_API = "an API without nodes"
_OWN = {"second_cluster": SECOND_CLUSTER, "bare_api": BARE_API}
"""Module that a test imports → what it runs on instead of the shared cluster."""


def part_of(test: str, root: Path) -> str:
    """What stays on one worker: a file of unit tests, or all tests of a cluster. `test` is an id, relative to `root`."""
    file = test.partition("::")[0]
    if (root / file).parent != E2E:
        return file
    return _runs_on(root / file)


def is_end_to_end(test: str, root: Path) -> bool:
    """Whether it is a test of this folder, not of one below, that needs a whole cluster."""
    return part_of(test, root) in (SHARED_CLUSTER, SECOND_CLUSTER)


@functools.cache
def _runs_on(file: Path) -> str:
    imported = re.findall(r"^from (\w+) import", file.read_text(), re.MULTILINE)
    return next((_OWN[one] for one in imported if one in _OWN), SHARED_CLUSTER)


class PartByPart(LoadScopeScheduling):
    """Hands out one part after the other, in the order of the command line."""

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid, self.config.rootpath)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PartByPart:
    """Asked by pytest-xdist."""
    config.option.loadscopereorder = False
    return PartByPart(config, log)
