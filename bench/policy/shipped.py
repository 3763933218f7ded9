"""The router's own plan, admission and choice, driven by the simulation: nothing of them is copied."""

import random
from collections.abc import Callable, Mapping, Sequence

from simulation import Send
from workload import BOUNDARY, LARGEST, SHORT, Request

from workslice_router.admission import Admission, Lease
from workslice_router.ejection import Outcome
from workslice_router.estimate import Estimator
from workslice_router.openai_errors import Refusal, Refused
from workslice_router.replica_load import FIRST_PACE, EnginePace, ServiceLevel
from workslice_router.request_body import RequestView
from workslice_router.routing_table import PoolSpec, ReplicaSpec, RoutingTable
from workslice_router.text_size import TextKind

MODEL = "model"
LONGEST_ANSWER = 2048


class Silent:
    """An observer that counts nothing."""

    def queued(self, pool: str, class_name: str, seconds: float) -> None:
        pass

    def ejected(self, pool: str) -> None:
        pass


class Shipped:
    """A router in front of pools, each a class and its replicas; `levels` are the classes' service levels."""

    def __init__(
        self,
        pools: Sequence[tuple[str, int]],
        levels: Mapping[str, ServiceLevel],
        seed: int,
        first_pace: EnginePace = FIRST_PACE,
    ) -> None:
        self._pools = pools
        self._levels = levels
        self._seed = seed
        self._first_pace = first_pace

    def start(self, clock: Callable[[], float], send: Send) -> None:
        self._send = send
        table = RoutingTable()
        self._number: dict[str, int] = {}
        for class_name, replicas in self._pools:
            tokens = BOUNDARY if class_name == SHORT else LARGEST + LONGEST_ANSWER
            spec = PoolSpec(
                f"bench/{class_name}",
                MODEL,
                class_name,
                tokens,
                LARGEST + LONGEST_ANSWER,
                max_concurrent=256,
                desired_replicas=replicas,
                level=self._levels.get(class_name),
                first_pace=self._first_pace,
            )
            table.put_pool(spec)
            uids = [f"{class_name}-{number}" for number in range(replicas)]
            for uid in uids:
                self._number[uid] = len(self._number)
            table.put_replicas(spec.key, [ReplicaSpec(uid, "192.0.2.1", 8000) for uid in uids])
        table.commit()
        self.estimator = Estimator()
        self.admission = Admission(table, self.estimator, Silent(), clock, random.Random(self._seed).random)
        self._leases: dict[Request, Lease] = {}
        self._views: dict[Request, RequestView] = {}

    def arrived(self, request: Request) -> None:
        view = RequestView(
            model=MODEL,
            stream=True,
            prompt_size=round(request.prompt * request.error),
            prompt_least=request.prompt // 12,
            kind=TextKind.PROSE,
            media=0,
            prompt_tokens=0,
            prompts=1,
            max_tokens=LONGEST_ANSWER,
            choices=1,
            include_usage=True,
            has_cache_salt=False,
            has_priority=False,
        )
        self._views[request] = view
        try:
            plan = self.admission.plan(view, None)
            client = _Client(self, request)
            placed = self.admission.submit(plan, client, body_bytes=4 * request.prompt)
        except Refused:
            return
        if isinstance(placed, Lease):
            self.granted(request, placed)

    def granted(self, request: Request, lease: Lease) -> None:
        self._leases[request] = lease
        self._send(request, self._number[lease.replica.uid], lease.priority)

    def first_token(self, request: Request) -> None:
        self._leases[request].answered()

    def finished(self, request: Request) -> None:
        lease = self._leases.pop(request)
        view = self._views.pop(request)
        self.estimator.learn_prompt(MODEL, view, request.prompt)
        self.estimator.answers.learn(MODEL, lease.class_name, request.answer, bounded=True, cut=False)
        lease.settle(Outcome.OK)

    def tick(self) -> None:
        self.admission.tick()


class _Client:
    """One request in the router's queue."""

    caller = "bench"

    def __init__(self, router: Shipped, request: Request) -> None:
        self._router = router
        self._request = request

    def granted(self, lease: Lease) -> None:
        self._router.granted(self._request, lease)

    def refused(self, cause: Refusal) -> None:
        pass
