"""The pools that this router can send to: immutable specs and routes, and the accounting that outlives changes of them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from workslice_router.class_times import NO_TIMES, ClassTimes, most_patient
from workslice_router.ejection import HEALTHY, Health
from workslice_router.engine_gauges import EngineGauges
from workslice_router.mean_request import MeanRequest, first_mean_request
from workslice_router.pool_queue import PoolQueue
from workslice_router.replica_limits import FIRST_REQUESTS, NO_LOAD, UNLIMITED, LoadShare
from workslice_router.replica_load import FIRST_PACE, EnginePace, ReplicaLoad, ServiceLevel, strictest
from workslice_router.retry_budget import RetryBudget


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica as discovery sees it."""

    uid: str
    """UID of its pod, or its address when pools come from a file."""
    host: str
    port: int
    ready: bool = True
    draining: bool = False
    """Terminating, or named in the pool's status.draining."""


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """What the router needs of a pool and its profile."""

    key: str
    """namespace/name."""
    model: str
    """The model's name at the engine."""
    class_name: str
    class_tokens: int
    """Largest request that the pool prefers; never more than `context_tokens`."""
    context_tokens: int
    """Largest request that its engines can hold."""
    class_prompt_tokens: int | None = None
    """Longest prompt that the pool prefers."""
    strict: bool = False
    """It takes requests of its class alone, and the class's requests go to no other."""
    uid: str = ""
    aliases: tuple[str, ...] = ()
    priority: int = 0
    weight: int = 100
    max_concurrent: int = 64
    """Requests that one replica runs at once."""
    derives_cap: bool = True
    """Fewer where the KV cache or the service level allows fewer; False where somebody has set `max_concurrent` for this pool."""
    queue_depth: int = 256
    queue_wait: float = 60.0
    """Seconds."""
    cold_start_wait: float = 300.0
    """Seconds, while no replica is ready but one is wanted."""
    start_seconds: float | None = None
    """How long replicas of its profile usually take to start; None: not known."""
    desired_replicas: int = 0
    """What it is worth waiting for: 0 as well when the operator says why none can come."""
    asleep: bool = False
    """Scaled to zero for want of requests: the next one wakes it."""
    created: float = 0.0
    """Unix time, for GET /v1/models."""
    level: ServiceLevel | None = None
    """What its class should get; None: a replica is chosen by its outstanding work alone."""
    first_pace: EnginePace = FIRST_PACE
    """How its engines work on prompts before anything is learned."""
    times: ClassTimes = NO_TIMES
    degrade_tokens: int | None = None
    """A request that finds no place may get a shorter answer: of so many tokens at most."""
    fallback_model: str = ""
    """Or one of this model."""

    @property
    def namespace(self) -> str:
        """Its namespace, which all pools of a model share."""
        return self.key.partition("/")[0]

    @property
    def served_names(self) -> tuple[str, ...]:
        """The model's name and its aliases."""
        return (self.model, *(alias for alias in self.aliases if alias != self.model))


@dataclass(eq=False, slots=True)
class Replica:
    """A replica and what this router has running on it."""

    spec: ReplicaSpec
    in_flight: int = 0
    outstanding_tokens: int = 0
    sizes: int = 0
    """The same, but of no request more than an engine holds at once: one that asks for hundreds of answers does not get them at a time."""
    dispatched: int = 0
    """Requests ever sent there: breaks ties between idle replicas in turn."""
    health: Health = HEALTHY
    ask_after: float = 0.0
    """Not before this time it is asked whether it hangs."""
    load: ReplicaLoad = field(default_factory=ReplicaLoad)
    kv_tokens: int | None = None
    """Tokens that its KV cache holds; None as long as it has not said so."""
    dispatch_cap: int = UNLIMITED
    """It gets no further request while it runs so many, whatever the pool's max_concurrent allows."""
    shared_limit: int = UNLIMITED
    """This router's part of its places, while others use it as well."""
    warm_limit: int = UNLIMITED
    """What it may have while it is new."""
    warm: bool = False
    """It is no longer new."""
    ready_since: float | None = None
    """When it came into rotation, unless it was there before the clock was looked at."""
    listed: bool = True
    """Discovery still lists it; a replica that is gone stays until its last request ends."""
    sequences: int = 0
    """What the requests in flight are at the engine: one for each prompt and each of its answers."""
    others_tokens: int = 0
    """Estimated tokens of the requests that others have there."""
    gauges: EngineGauges | None = None
    """What the engine showed of late; None while that is unknown."""
    gauges_at: float = float("-inf")
    """When it last showed anything."""
    look_at: float = 0.0
    """Not before this time it is asked for its gauges again."""
    remembers: int = 256
    """Requests after which a prompt is gone from its cache."""

    @property
    def uid(self) -> str:
        """Identity of the replica."""
        return self.spec.uid

    @property
    def host(self) -> str:
        """IP address or host name."""
        return self.spec.host

    @property
    def port(self) -> int:
        """TCP port."""
        return self.spec.port


@dataclass(eq=False, slots=True)
class Pool:
    """A pool and what this router has queued and running for it."""

    spec: PoolSpec
    replicas: tuple[Replica, ...] = ()
    queue: PoolQueue = field(default_factory=PoolQueue)
    running: int = 0
    asked: int = 0
    """Requests that were sent to a replica of it, or elsewhere because it had none."""
    rejected: int = 0
    """Requests that ended because it had no room for them."""
    serving: bool = True
    """False while the pool is in conflict or gone: nothing new goes there."""
    siblings: tuple["Pool", ...] = ()
    """Other serving pools of any of its names."""
    pace: EnginePace = FIRST_PACE
    """How its engines work on prompts, as far as is known."""
    retries: RetryBudget = field(default_factory=RetryBudget)
    missed_since: float | None = None
    """When the first of those came that had to wait since no replica was ready; None when one has been since."""
    share: LoadShare = NO_LOAD
    """Whose load its replicas carry."""
    mean_request: MeanRequest = field(init=False)
    """What this router's requests to it are like."""

    def __post_init__(self) -> None:
        self.mean_request = first_mean_request(self.spec.class_tokens)

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.spec.key

    def may_retry(self, now: float) -> bool:
        """Whether another request that failed here may be tried again, and count it."""
        sent = sum(replica.dispatched for replica in self.replicas)
        return self.retries.take(self.spec.max_concurrent, sent, now)


@dataclass(frozen=True, slots=True)
class ClassRoutes:
    """One request class of a model."""

    name: str
    tokens: int
    """Largest request of the class."""
    context_tokens: int
    """Largest request that any of its pools can hold."""
    priority: int
    pools: tuple[Pool, ...]
    level: ServiceLevel | None = None
    """The strictest that one of its pools sets."""
    times: ClassTimes = NO_TIMES
    prompt_tokens: int | None = None
    """Longest prompt of the class; None: only `tokens` counts."""
    strict: bool = False
    """One of its pools is: its requests stay in its pools."""


@dataclass(frozen=True, slots=True)
class ModelRoutes:
    """Who serves a name that clients may ask for."""

    name: str
    classes: tuple[ClassRoutes, ...]
    """By size, smallest first."""
    context_tokens: int
    created: float


class RoutingTable:
    """All pools by key and all routes by name. Discovery changes it between requests and then calls `commit` once."""

    def __init__(self) -> None:
        self.synced = False
        """Discovery has seen all pools at least once."""
        self.pools: dict[str, Pool] = {}
        self.routes: dict[str, ModelRoutes] = {}
        self.generation = 0
        """Counts the commits that changed `routes`."""
        self.changed: set[Pool] = set()
        """Pools whose numbers changed since the state document last looked."""
        self.on_change: Callable[[Collection[Pool]], None] | None = None
        """Told after a commit which pools it touched, the removed ones included."""
        self.asked_in_vain = 0
        """Requests that belong to a pool that sleeps; whoever may wake it waits for them."""
        self.on_asked_in_vain: Callable[[], None] | None = None
        """Told of each."""
        self.has_levels = False
        """A pool has a service level: only then the beginnings of prompts matter."""
        self._by_name: dict[str, dict[str, Pool]] = {}
        self._stale_names: set[str] = set()
        self._touched: set[Pool] = set()

    def put_pool(self, spec: PoolSpec, serving: bool = True) -> None:
        """Add a pool or change it; its accounting stays, unless it is another pool of the same name (by UID)."""
        pool = self.pools.get(spec.key)
        if pool is not None and pool.spec.uid != spec.uid:
            self.remove_pool(spec.key)
            pool = None
        if pool is None:
            pool = self.pools[spec.key] = Pool(spec, serving=False, pace=spec.first_pace)
        elif pool.spec == spec and pool.serving == serving:
            return
        self._unlink(pool)
        if pool.spec.first_pace != spec.first_pace:
            pool.pace = spec.first_pace
        pool.spec, pool.serving = spec, serving
        self._link(pool)
        self._touched.add(pool)

    def put_replicas(self, key: str, specs: Iterable[ReplicaSpec]) -> None:
        """Say which replicas a pool has; known ones (by UID) keep their accounting. Unknown pools are ignored."""
        pool = self.pools.get(key)
        if pool is None:
            return
        known = {replica.spec.uid: replica for replica in pool.replicas}
        listed = []
        ordered = sorted(specs, key=lambda one: one.uid)
        serving = {spec.uid for spec in ordered if spec.ready and not spec.draining}
        if serving:
            pool.missed_since = None  # also when nobody waits any more: the next start is another one
        beside_warm = any(replica.warm and replica.uid in serving for replica in pool.replicas)
        for spec in ordered:
            replica = known.pop(spec.uid, None)
            if replica is None:
                replica = Replica(spec)
                if beside_warm:
                    replica.warm_limit = replica.dispatch_cap = FIRST_REQUESTS
            elif replica.spec.ready != spec.ready and spec.ready:
                replica.health = HEALTHY  # its probes say that it is back
            replica.spec, replica.listed = spec, True
            listed.append(replica)
        for gone in known.values():
            gone.listed = False
            if gone.in_flight:
                listed.append(gone)
        pool.replicas = tuple(listed)
        self._touched.add(pool)

    def remove_pool(self, key: str) -> None:
        """Forget a pool; what runs there goes on."""
        pool = self.pools.pop(key, None)
        if pool is None:
            return
        self._unlink(pool)
        pool.serving = False
        for replica in pool.replicas:
            replica.listed = False
        pool.replicas = tuple(replica for replica in pool.replicas if replica.in_flight)
        self._touched.add(pool)

    def commit(self) -> None:
        """Make what was put visible to new requests."""
        if self._stale_names:
            for name in self._stale_names:
                pools = self._by_name.get(name)
                if pools:
                    self.routes[name] = model_routes(name, pools.values())
                else:
                    self._by_name.pop(name, None)
                    self.routes.pop(name, None)
            neighbours = {pool for name in self._stale_names for pool in self._by_name.get(name, {}).values()}
            for pool in neighbours | self._touched:
                pool.siblings = self._siblings(pool)
            self._stale_names.clear()
            self.has_levels = any(pool.spec.level is not None for pool in self.pools.values())
            self.generation += 1
        touched, self._touched = self._touched, set()
        if touched:
            self.changed |= touched
            if self.on_change is not None:
                self.on_change(touched)

    def count_asked_in_vain(self, pool: Pool) -> None:
        """A request belongs to a pool that has no ready replica, whoever serves it."""
        pool.asked += 1
        self.changed.add(pool)
        if not pool.spec.asleep:  # nobody can bring a replica sooner that is on its way or cannot come
            return
        self.asked_in_vain += 1
        if self.on_asked_in_vain is not None:
            self.on_asked_in_vain()

    def forget_idle(self, pool: Pool, replica: Replica) -> None:
        """Drop a replica that discovery no longer lists once its last request has ended."""
        if not replica.listed and not replica.in_flight:
            pool.replicas = tuple(one for one in pool.replicas if one is not replica)

    def _link(self, pool: Pool) -> None:
        if pool.serving:
            for name in pool.spec.served_names:
                self._by_name.setdefault(name, {})[pool.key] = pool
                self._stale_names.add(name)

    def _unlink(self, pool: Pool) -> None:
        for name in pool.spec.served_names:
            if self._by_name.get(name, {}).get(pool.key) is pool:
                del self._by_name[name][pool.key]
                self._stale_names.add(name)

    def _siblings(self, pool: Pool) -> tuple[Pool, ...]:
        if not pool.serving:
            return ()
        found = {one.key: one for name in pool.spec.served_names for one in self._by_name.get(name, {}).values()}
        found.pop(pool.key, None)
        return tuple(found.values())


def longest_prompt(limits: Iterable[int | None]) -> int | None:
    """The largest of several bounds, of which None is none."""
    known = list(limits)
    return None if None in known else max(limit for limit in known if limit is not None)


def model_routes(name: str, pools: Iterable[Pool]) -> ModelRoutes:
    """Group the pools that serve `name` by request class, smallest class first."""
    by_class: dict[str, list[Pool]] = {}
    for pool in sorted(pools, key=lambda one: one.key):
        by_class.setdefault(pool.spec.class_name, []).append(pool)
    classes = [
        ClassRoutes(
            class_name,
            max(pool.spec.class_tokens for pool in members),
            max(pool.spec.context_tokens for pool in members),
            min(pool.spec.priority for pool in members),
            tuple(members),
            strictest(pool.spec.level for pool in members),
            most_patient(pool.spec.times for pool in members),
            longest_prompt(pool.spec.class_prompt_tokens for pool in members),
            any(pool.spec.strict for pool in members),
        )
        for class_name, members in by_class.items()
    ]
    classes.sort(key=lambda one: (one.tokens, one.name))
    return ModelRoutes(
        name,
        tuple(classes),
        max(one.context_tokens for one in classes),
        min(pool.spec.created for one in classes for pool in one.pools),
    )
