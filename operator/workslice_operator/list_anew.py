"""Brings a store to what the API has of a kind: all objects, page by page, and what has gone since."""

import asyncio
from collections.abc import AsyncIterator, Callable

from workslice_operator.kube_api import KubeWatch, Object, Resource
from workslice_operator.object_store import Name, ObjectStore, name_of


async def list_anew(
    store: ObjectStore,
    kube: KubeWatch,
    resource: Resource,
    labels: str = "",
    changed: Callable[[Object, bool], None] = lambda raw, there: None,
) -> tuple[set[Name], str]:
    """Names of all objects that match the selector, and the version from which to follow them; `changed` gets each object that is new,
    changed in what is kept of it, or gone (then with False). Raises KubeError.
    """
    before, present, version = store.uids(), set[Name](), ""
    with store.listing() as take:
        async for page in pages(kube, resource, labels):
            version = str(page["metadata"].get("resourceVersion", ""))
            for raw in page["items"]:
                present.add(name_of(raw))
                if take(raw):
                    changed(raw, True)
            del page  # while the next one is waited for
    for raw in store.absent(present):
        if before.get(name_of(raw)) == raw["metadata"].get("uid", ""):  # else it was made while the API answered
            store.drop(name_of(raw))
            changed(raw, False)
    return present, version


async def pages(kube: KubeWatch, resource: Resource, labels: str = "") -> AsyncIterator[Object]:
    """All objects that match the selector, some at a time: raw they take many times the memory of what is kept of them."""
    token = ""
    while True:
        page = await kube.page(resource, labels, token)
        token = page["metadata"].get("continue", "")
        yield page
        if not token:
            return
        del page
        await asyncio.sleep(0)  # a page takes tens of milliseconds: others come in between
