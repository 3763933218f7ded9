"""WorkspacePool: a namespaced set of equal, pre-warmed vLLM replicas of one profile that prefers one request class of one model."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from workslice_api.base import Condition, KubeModel, Name, ObjectMeta
from workslice_api.pod_template import PodTemplate
from workslice_api.pool_replicas import DrainMark, ReplicaStart
from workslice_api.quantity import Duration
from workslice_api.readable_rules import rule_for_pattern

MODEL_NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
ModelName = Annotated[str, Field(min_length=1, max_length=128, pattern=MODEL_NAME_PATTERN)]
MAX_REPLICAS: Final = 1000
MAX_DRAIN_MARKS: Final = 32
MAX_LOWER_DEMANDS: Final = 8
MAX_POOL_NAME: Final = 50
"""Leaves room for the suffixes of children and pods within 63 characters."""


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


class ProfileRef(KubeModel):
    """Names a WorkspaceProfile."""

    name: Name
    """Name of the WorkspaceProfile. Rolls: replaces the engine pods."""


class ServiceLevelObjective(KubeModel):
    """How fast the requests of a class should be answered. A wish: routers weigh replicas by it and refuse nothing for it."""

    time_to_first_token: Duration = "500ms"
    """How soon the first token should come. Live: takes effect without touching engines."""
    time_per_output_token: Duration = "50ms"
    """How soon each further token should follow. Live: takes effect without touching engines."""


class RequestTimeouts(KubeModel):
    """How long requests of a class wait for an engine; less than 1s counts as 1s. Nothing bounds an answer as a whole."""

    first_byte: Duration | None = None
    """How long an engine has from getting a request until its answer begins, whatever it says before (a stream begins with its first
    event). Unset, nothing bounds it as long as the engine gives any sign of life within the chart's router.idleTimeout. Live: takes
    effect without touching engines."""
    idle: Duration | None = None
    """Longest silence inside an answer; unset, the chart's router.idleTimeout. Live: takes effect without touching engines."""


class RequestClass(KubeModel):
    """The requests that a pool prefers."""

    name: Name
    """Name of the class; pools of one model may share it. Clients may ask for it with the header x-workslice-class, or behind the
    model's name as in `model@class`. Live: takes effect without touching engines."""
    max_total_tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    """Largest request of the class: estimated prompt plus expected answer, in tokens. At most the profile's workspace.maxTokens. Live:
    takes effect without touching engines."""
    max_prompt_tokens: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """Longest prompt of the class, in estimated tokens; unset: as long as maxTotalTokens allows. A longer one belongs to a larger class,
    even when prompt and answer together are small. Live: takes effect without touching engines."""
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Scheduling priority of the class's requests inside an engine: lower runs earlier, as in vLLM. Where classes wait for the same pool,
    each step lower doubles the tokens that a class gets, down to -4 and up to 4. Live: takes effect without touching engines."""
    slo: ServiceLevelObjective | None = None
    """How fast requests of the class should be answered. With it routers choose a replica by when its first token and its pace are to
    be expected there, and pools of the model that have one lend each other replicas where that helps, as far as a request fits the
    profile's workspace.maxTokens. Without it a pool's replica with the least outstanding work takes a request. Live: takes effect
    without touching engines."""
    timeouts: RequestTimeouts | None = None
    """How long requests of the class wait for an engine. A request that ran out of time ends with 504, or with an error event when its
    answer had begun. Live: takes effect without touching engines."""
    keep_alive: Duration | None = None
    """While a stream waits in the queue or for its first token, its client gets a comment this often (less than 1s counts as 1s), for
    clients and proxies that give up on silent connections. The first one commits the answer to status 200: what fails later is an
    error event. Unset, nothing is sent before the first token. Live: takes effect without touching engines."""


Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
WEEKDAYS: Final[tuple[Weekday, ...]] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
TimeOfDay = Annotated[
    str,
    Field(
        max_length=5,
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
        json_schema_extra=rule_for_pattern("must be a time of day such as 08:00 or 17:30"),
    ),
]
TimeZone = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        json_schema_extra={
            # An unknown zone makes the rule itself fail, and the API server's answer names it.
            "x-kubernetes-validations": [
                _rule(
                    "timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",
                    "must be a time zone such as UTC or Europe/Berlin",
                )
            ]
        },
    ),
]


class ScheduledMinimum(KubeModel):
    """Hours in which a pool keeps at least so many replicas."""

    days: Annotated[
        list[Weekday], Field(min_length=1, max_length=7, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = list(WEEKDAYS)
    """Days of the week on which the hours begin. Live: takes effect without touching engines."""
    start: TimeOfDay
    """When they begin. Replicas take a while to start: begin so much earlier. Live: takes effect without touching engines."""
    end: TimeOfDay
    """When they end; on the next day if that is not later than start. Live: takes effect without touching engines."""
    time_zone: TimeZone = "UTC"
    """Where the clock hangs: a name of the IANA data base such as Europe/Berlin. Live: takes effect without touching engines."""
    min_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
    """Never fewer replicas in these hours, up to maxReplicas; nor is the pool scaled to zero. Live: takes effect without touching
    engines."""


class Scaling(KubeModel):
    """How many replicas a pool runs."""

    mode: Literal["QueueDepth", "External", "Fixed"] = "Fixed"
    """QueueDepth: by requests queued and running. External: as many as an autoscaler of your own, such as a HorizontalPodAutoscaler, writes
    into spec.replicas. Fixed: as many as somebody writes there. Live: takes effect without touching engines."""
    min_replicas: Annotated[int | None, Field(ge=1, le=MAX_REPLICAS)] = None
    """Never fewer replicas in mode QueueDepth (default 1). Live: takes effect without touching engines."""
    max_replicas: Annotated[int | None, Field(ge=1, le=MAX_REPLICAS)] = None
    """Never more replicas; required in mode QueueDepth. Live: takes effect without touching engines."""
    target_per_replica: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Queued plus running requests that one replica should carry: best where answers take about twice as long as alone, since the
    operator reckons that fewer replicas answer more slowly. Live: takes effect without touching engines."""
    headroom: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 0
    """Replicas in rotation beyond those that demand asks for, up to maxReplicas: what takes a surge while further ones start. Live:
    takes effect without touching engines."""
    scale_down_window: Duration = "5m"
    """A replica goes only after demand stayed lower for this long. Live: takes effect without touching engines."""
    schedule: Annotated[list[ScheduledMinimum], Field(max_length=16)] = []
    """Hours of the week with a higher minimum than minReplicas; where several overlap the highest counts. Live: takes effect without
    touching engines."""
    scale_to_zero_after: Duration | None = None
    """After so long without any request all replicas go, whatever minReplicas and headroom say; unset, never. The next request wakes the
    pool and waits for it, at most queue.coldStartMaxWait. Live: takes effect without touching engines."""


class Queue(KubeModel):
    """The pool's waiting line in each router."""

    max_depth: Annotated[int, Field(ge=0, le=100_000)] = 256
    """Requests that may wait in one router, together with at most so many times requestClass.maxTotalTokens; beyond it answers 429 with
    Retry-After. Live: takes effect without touching engines."""
    max_wait: Duration = "60s"
    """Longest wait; after it 429 with Retry-After. Live: takes effect without touching engines."""
    cold_start_max_wait: Duration = "5m"
    """Longest wait instead while no replica is ready but one is wanted: as long as replicas take to start, and less than clients
    wait; after it 503. Live: takes effect without touching engines."""
    max_in_flight_per_replica: Annotated[int | None, Field(ge=1, le=4096)] = None
    """Requests that one replica gets at a time, of all routers together; the rest waits here. Unset, routers derive it from the size of the
    pool's requests: what its KV cache holds of them, and with an slo what its pace allows. Either way at most the profile's
    workspace.maxConcurrent, beyond which an engine would make them wait itself. Live: takes effect without touching engines."""


class Degrade(KubeModel):
    """What routers take from a request instead of answering 429, when it finds no place or has waited too long for one. The answer says so
    in its header x-workslice-degraded.
    """

    max_tokens: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """First its answer is limited to this many tokens, so that a smaller class or another pool may have a place for it. Only lowers,
    and sets the limit where the request has none. Live: takes effect without touching engines."""
    fallback_model: ModelName | None = None
    """Then this model answers, as long as the request wanted: the name or an alias of another model that pools of the same namespace
    serve. It is asked once: what its own pools would fall back to is not. Not for embeddings, which no two models make alike. Live: takes
    effect without touching engines."""


class Drain(KubeModel):
    """How replicas leave."""

    timeout: Duration = "120s"
    """How long running requests may take to finish when a replica goes. preStop, --shutdown-timeout and the pod's grace period follow
    from it. Rolls: replaces the engine pods."""


class WorkspacePoolSpec(KubeModel):
    """A set of equal replicas of one profile that serves one model to one request class."""

    profile_ref: ProfileRef
    """The profile that the replicas are made of."""
    model: ModelName
    """Name of the model in the OpenAI API. Immutable: cannot be changed, only a new object can have another value."""
    aliases: Annotated[list[ModelName], Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "set"})] = []
    """Further names of the model; routers translate them, engines know one name. Live: takes effect without touching engines."""
    request_class: Annotated[
        RequestClass,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    _rule(
                        "!has(self.maxPromptTokens) || self.maxPromptTokens <= self.maxTotalTokens",
                        "requestClass.maxPromptTokens may not be larger than requestClass.maxTotalTokens, which counts the answer as well",
                    )
                ]
            }
        ),
    ]
    """The requests that this pool prefers."""
    spillover: Literal["Soft", "Strict"] = "Soft"
    """Soft: pools of a model help each other out. Strict: the pool takes requests of its class alone, and when a pool of a class is
    strict, the class's requests go to no other class's pool, full as theirs may be. Live: takes effect without touching engines."""
    weight: Annotated[int, Field(ge=0, le=1000)] = 100
    """Share of traffic among pools of one model and class; 0 takes none (a canary that waits). Live: takes effect without touching
    engines."""
    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Replicas in modes Fixed and External; `kubectl scale` and autoscalers set it, the operator never does. Live: takes effect without
    touching engines."""
    scaling: Annotated[
        Scaling,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    _rule(
                        "self.mode != 'QueueDepth' || has(self.maxReplicas)",
                        "scaling.maxReplicas is required in mode QueueDepth: say how many slices the pool may take",
                    ),
                    _rule(
                        "self.mode == 'QueueDepth' || (!has(self.minReplicas) && !has(self.maxReplicas))",
                        "minReplicas and maxReplicas work in mode QueueDepth only: set scaling.mode to QueueDepth, use "
                        "spec.replicas in mode Fixed, or give the bounds to the autoscaler in mode External",
                    ),
                    _rule(
                        "self.mode == 'QueueDepth' || !has(self.headroom) || self.headroom == 0",
                        "scaling.headroom works in mode QueueDepth only: set scaling.mode to QueueDepth",
                    ),
                    _rule(
                        "self.mode == 'QueueDepth' || !has(self.schedule) || self.schedule.size() == 0",
                        "scaling.schedule works in mode QueueDepth only: set scaling.mode to QueueDepth",
                    ),
                    _rule(
                        "self.mode == 'QueueDepth' || !has(self.scaleToZeroAfter)",
                        "scaling.scaleToZeroAfter works in mode QueueDepth only: set scaling.mode to QueueDepth",
                    ),
                    _rule(
                        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                        "scaling.minReplicas may not be larger than scaling.maxReplicas",
                    ),
                ]
            }
        ),
    ] = Scaling()
    """How many replicas the pool runs."""
    queue: Queue = Queue()
    """The pool's waiting line in each router."""
    degrade: Degrade | None = None
    """What a request may lose before it is refused with 429; unset, nothing. Pools of one model and class should say the same: the first
    by name that says something counts for all. Live: takes effect without touching engines."""
    drain: Drain = Drain()
    """How replicas leave."""
    template: PodTemplate = PodTemplate()
    """What the engine pods need of this cluster: tolerations, volumes, accounts and the like."""


class SliceStatus(KubeModel):
    """Slices of a pool."""

    profile: Annotated[str, Field(max_length=64)] = ""
    """The slice that replicas ask for."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """Why it is this one, where the profile names several."""
    kv_tokens: int | None = None
    """Tokens that the KV cache of a replica holds, as a running engine says; absent until one does."""
    measured_for: Annotated[str, Field(max_length=64)] = ""
    """Digest of the settings that kvTokens holds for."""
    wanted: int = 0
    """Slices that the pool wants."""
    granted: int = 0
    """Slices that its scheduled pods hold."""
    free: int | None = None
    """Free slices of this kind in the cluster when anything else of this status was written last; absent when unknown."""


class LowerDemand(KubeModel):
    """Since a moment demand has never asked for more than so many replicas."""

    since: Annotated[str, Field(max_length=40, json_schema_extra={"format": "date-time"})]
    """The moment (RFC 3339)."""
    replicas: int
    """The most that was asked for since then."""


class ScalingMemory(KubeModel):
    """What the scaler must remember over a restart of the operator."""

    desired: int = 0
    """Replicas decided last."""
    lower: Annotated[list[LowerDemand], Field(max_length=MAX_LOWER_DEMANDS)] = []
    """How long demand has asked for fewer replicas, and for how few at most; the longest first."""
    last_depths: Annotated[list[int], Field(max_length=2)] = []
    """Queue depths at the last two looks, two seconds apart; the older first."""
    idle_since: Annotated[str | None, Field(max_length=40, json_schema_extra={"format": "date-time"})] = None
    """Since when no request has been there (RFC 3339); only with scaling.scaleToZeroAfter."""
    asked: int | None = None
    """Requests that the routers had counted for the pool at the last look; only with scaling.scaleToZeroAfter."""
    asleep: bool = False
    """The pool was scaled to zero for want of requests."""
    usual_depth_milli: int | None = None
    """Queue depth in thousandths, as a mean over about a minute."""


class WorkspacePoolStatus(KubeModel):
    """What the operator knows of a pool."""

    observed_generation: int = 0
    """Generation that this status speaks of."""
    replicas: int = 0
    """Engine pods that exist."""
    ready_replicas: int = 0
    """Engine pods that are ready."""
    desired_replicas: int = 0
    """Engine pods that the operator wants."""
    selector: Annotated[str, Field(max_length=512)] = ""
    """Label selector of the engine pods, for the scale subresource."""
    queue_depth: int | None = None
    """Requests queued at the routers plus running on replicas; absent when unknown."""
    models: Annotated[list[ModelName], Field(max_length=33)] = []
    """Names that the pool holds: no pool of another namespace can claim them any more, however old it is."""
    draining: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=64)] = []
    """UIDs of engine pods that are going or asked to go: routers send them nothing new."""
    drain_marks: Annotated[list[DrainMark], Field(max_length=MAX_DRAIN_MARKS)] = []
    """Replicas that are asked to go and that still may be called back into rotation."""
    slices: SliceStatus = SliceStatus()
    """Slices of the pool."""
    last_start: ReplicaStart | None = None
    """The start of the newest replica that has become ready: as long as others may take to come."""
    scaling: ScalingMemory = ScalingMemory()
    """The scaler's memory."""
    conditions: Annotated[
        list[Condition],
        Field(
            max_length=16,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    """Ready is derived from ProfileReady, SlicesGranted and EnginesReady; beside them Scaling, Draining, Degraded and Conflict, and
    Paused while the annotation workslice.dev/paused holds all writes, Outdated while other engine pods wait for their turn."""


POOL_RULES: Final[list[dict[str, Any]]] = [
    _rule(
        "self.spec.model == oldSelf.spec.model",
        "spec.model cannot be changed: make a new pool for another model, then delete this one",
    ),
    _rule(
        "!has(self.spec.degrade) || !has(self.spec.degrade.fallbackModel) || self.spec.degrade.fallbackModel != self.spec.model",
        "degrade.fallbackModel must be another model than spec.model: name one that other pools of this namespace serve",
    ),
    _rule(
        f"self.metadata.name.size() <= {MAX_POOL_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        f"metadata.name of a WorkspacePool must be a DNS label of at most {MAX_POOL_NAME} characters that begins with a letter",
    ),
]


class WorkspacePool(KubeModel):
    """A set of equal, pre-warmed vLLM replicas of one profile that prefers one request class of one served model. Annotations: while
    workslice.dev/paused is there, the operator writes nothing for the pool; workslice.dev/rendering=latest replaces its engines when an
    upgraded operator makes their pods otherwise.
    """

    api_version: Literal["workslice.dev/v1alpha1"] = "workslice.dev/v1alpha1"
    kind: Literal["WorkspacePool"] = "WorkspacePool"
    metadata: ObjectMeta
    spec: WorkspacePoolSpec
    """What the pool serves and how."""
    status: WorkspacePoolStatus = WorkspacePoolStatus()
    """What the operator knows of it."""

    @property
    def key(self) -> str:
        """`namespace/name`, the key of the pool in queues, logs, metrics and the routers' state."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def served_names(self) -> tuple[str, ...]:
        """Every name by which clients may ask for the model: the model first, then its aliases."""
        return (self.spec.model, *(alias for alias in self.spec.aliases if alias != self.spec.model))
