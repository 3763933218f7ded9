"""How requests reach replicas that come and go: held in Workslice's router until there is room, or bound to an engine at once."""

import random
from collections.abc import Callable, Collection

from baselines import Baseline
from contestants import LEVELS
from shipped import LONGEST_ANSWER, MODEL, Shipped, Silent
from simulation import Send
from workload import BOUNDARY, LARGEST, SHORT

from workslice_router.admission import Admission
from workslice_router.estimate import Estimator
from workslice_router.routing_table import PoolSpec, ReplicaSpec, RoutingTable


class HeldByTheRouter(Shipped):
    """The router as it is shipped, in front of one pool with an slo and a line that takes all who come."""

    _KEY = f"bench/{SHORT}"

    def __init__(self, seed: int) -> None:
        super().__init__((), LEVELS, seed)
        self._known: tuple[int, ...] = ()
        self._births: dict[int, int] = {}

    def start(self, clock: Callable[[], float], send: Send) -> None:
        self._send = send
        self._number = {}
        self._leases, self._views = {}, {}
        self._table = RoutingTable()
        self._table.put_pool(
            PoolSpec(
                self._KEY,
                MODEL,
                SHORT,
                BOUNDARY,
                LARGEST + LONGEST_ANSWER,
                max_concurrent=256,
                queue_depth=100_000,
                queue_wait=3600.0,
                desired_replicas=1,
                level=LEVELS[SHORT],
            )
        )
        self._table.commit()
        self.estimator = Estimator()
        self.admission = Admission(
            self._table, self.estimator, Silent(), clock, random.Random(self._seed).random, max_queued_bytes=1 << 40
        )

    def rotation(self, replicas: Collection[int]) -> None:
        for number in replicas:
            if number not in self._known:
                self._births[number] = self._births.get(number, 0) + 1
        self._known = tuple(replicas)
        # A number is used again by a later replica, a UID never.
        uids = {f"{number}-{self._births[number]}": number for number in replicas}
        self._number |= uids
        specs = [ReplicaSpec(uid, "192.0.2.1", 8000) for uid in uids]
        self._table.put_replicas(self._KEY, specs)
        self._table.commit()

    @property
    def queued(self) -> int:
        return len(self._table.pools[self._KEY].queue)


class BoundAtOnce(Baseline):
    """Each request goes at once to the ready replica with the least of a prompt to compute: the best that others do."""

    def __init__(self) -> None:
        super().__init__(lambda request: self._rotation, "prefill")
        self._rotation: tuple[int, ...] = ()

    def rotation(self, replicas: Collection[int]) -> None:
        self._rotation = tuple(replicas)

    @property
    def queued(self) -> int:
        return 0
