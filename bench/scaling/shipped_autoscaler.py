"""The operator's own decision, driven by the simulation: nothing of it is copied."""

from datetime import UTC, datetime, timedelta

from fleet import MAX_REPLICAS, MIN_REPLICAS, Look

from workslice_api.pool import ScalingMemory, WorkspacePoolSpec
from workslice_operator.follow_demand import POLL_SECONDS
from workslice_operator.observed import QueueSignal
from workslice_operator.scaling import ReplicaCounts, decide
from workslice_operator.weighed_depth import remember

_START = datetime(2026, 1, 1, tzinfo=UTC)


class ShippedAutoscaler:
    """A pool in mode QueueDepth; `scaling` are fields of spec.scaling."""

    every = POLL_SECONDS

    def __init__(self, **scaling: object) -> None:
        bounds = {"mode": "QueueDepth", "minReplicas": MIN_REPLICAS, "maxReplicas": MAX_REPLICAS}
        self._spec = WorkspacePoolSpec.model_validate(
            {
                "profileRef": {"name": "bench"},
                "model": "model",
                "requestClass": {"name": "short", "maxTotalTokens": 4096},
                "scaling": bounds | scaling,
            }
        )
        self._memory = ScalingMemory()

    def desired(self, look: Look) -> int:
        signal = QueueSignal(look.queued, look.running)
        self._memory = remember(self._memory, signal)
        counts = ReplicaCounts(look.current, look.starting, 0, look.ready)
        decision = decide(self._spec, self._memory, counts, signal, _START + timedelta(seconds=look.now))
        self._memory = decision.memory
        return decision.desired
