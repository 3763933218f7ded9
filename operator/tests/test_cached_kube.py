from dataclasses import dataclass

from pool_objects import child, engine_pod, raw_pool, raw_profile
from pool_world import KEY, World

from workslice_operator.cached_kube import CachedKube, LiveReads
from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import DEPLOYMENTS, PODS, POOLS, PROFILES, Object, Resource
from workslice_operator.object_store import ObjectStore


@dataclass
class Kind:
    store: ObjectStore
    fresh: bool = True


class Cached(World):
    """A world whose reconciler looks at what watches have told; the test decides when they tell."""

    def __init__(self, *objects: Object) -> None:
        self.watched: dict[Resource, Kind] = {resource: Kind(ObjectStore(keep)) for resource, keep in KEPT.items()}
        super().__init__(*objects)

    def start(self) -> None:
        super().start()
        self.reconciler._kube = CachedKube(self.kube, self.watched)
        self.reconciler._live = LiveReads(self.kube, self.watched)

    def tell(self) -> None:
        """All watches tell of everything that is there."""
        for (kind, _, _), raw in self.kube.objects.items():
            for resource, one in self.watched.items():
                if resource.kind == kind:
                    one.store.put(raw)

    async def settle(self) -> None:
        for _ in range(3):
            self.tell()
            await self.reconcile()
        self.tell()


async def test_a_pool_at_rest_costs_no_request() -> None:
    world = Cached(raw_pool(), raw_profile(), engine_pod("a"))
    await world.settle()
    reads = world.kube.reads
    await world.reconcile()
    claims_and_slices = 3  # shared by all pools, and not from the watches of this world
    assert world.kube.writes == []
    assert world.kube.reads - reads <= claims_and_slices


async def test_what_is_to_be_done_is_done_on_what_the_api_says_now() -> None:
    world = Cached(raw_pool(), raw_profile())
    world.tell()
    await world.reconcile()
    world.tell()
    world.kube.remove("WorkspacePool", "shop", "chat")  # nobody has told yet
    for kind in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"):
        world.kube.remove(kind, "shop", "chat-engine")
        world.watched[next(one for one in KEPT if one.kind == kind)].store.drop(("shop", "chat-engine"))
    await world.reconcile()
    assert world.kube.writes == []
    assert KEY not in world.reconciler.known_keys()


async def test_somebody_elses_object_under_a_childs_name_is_left_alone_though_no_watch_tells_of_it() -> None:
    foreign = child("Service", labels={}, ownerReferences=[])
    world = Cached(raw_pool(), raw_profile(), foreign)
    world.watched[next(one for one in KEPT if one.kind == "Service")].store.drop(("shop", "chat-engine"))
    for resource in (POOLS, PROFILES):
        for (kind, _, _), raw in world.kube.objects.items():
            if kind == resource.kind:
                world.watched[resource].store.put(raw)
    await world.reconcile()
    assert ("apply", "Service", "chat-engine") not in world.kube.writes
    assert ("apply", "Deployment", "chat-engine") in world.kube.writes


async def test_the_own_last_write_is_no_change_though_the_watch_is_late() -> None:
    world = Cached(raw_pool(), raw_profile())
    await world.settle()
    await world.reconcile()
    assert world.kube.writes == []


async def test_a_kind_that_is_not_followed_at_the_moment_is_read_from_the_api() -> None:
    world = Cached(raw_pool(), raw_profile(), engine_pod("a"))
    cached = CachedKube(world.kube, world.watched)
    assert await cached.list(PODS, "shop", labels="workslice.dev/pool=chat") == []
    assert await cached.get(DEPLOYMENTS, "shop", "chat-engine") is None
    world.watched[PODS].fresh = False
    assert len(await cached.list(PODS, "shop", labels="workslice.dev/pool=chat")) == 1
