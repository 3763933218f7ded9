from typing import Any

import pytest
from pool_objects import raw_pool, raw_profile
from pool_world import World

from workslice_operator.observed import QueueSignal


@pytest.mark.parametrize(
    "scaling", [{"mode": "External"}, {"mode": "Fixed"}, {"mode": "QueueDepth", "maxReplicas": 4}], ids=str
)
async def test_of_a_pool_only_its_status_is_written_whatever_sizes_it(scaling: dict[str, Any]) -> None:
    world = World(raw_pool(scaling=scaling, replicas=1), raw_profile())
    written = []
    for replicas, queued in ((1, 0), (3, 30), (3, 30), (1, 0), (1, 0)):
        world.kube.objects["WorkspacePool", "shop", "chat"]["spec"]["replicas"] = replicas  # an autoscaler
        world.demand = QueueSignal(queued=queued, running=0)
        for _ in range(3):
            await world.reconcile(after=120)
            written += world.kube.written("WorkspacePool")
        assert world.pool.spec.replicas == replicas
    assert set(written) == {"status"}
