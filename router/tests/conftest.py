import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

import workslice_router.exchange

COMPILED = not (workslice_router.exchange.__file__ or "").endswith(".py")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that the router really runs on; its transports differ from asyncio's."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compiled modules have bound the names that these tests replace: there the fault would never happen."""
    if COMPILED:
        for item in items:
            if item.get_closest_marker("interpreted"):
                item.add_marker(pytest.mark.skip(reason="replaces a name that is bound when the router is compiled"))
