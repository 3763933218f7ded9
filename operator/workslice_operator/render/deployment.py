"""The pool's Deployment."""

import math
from collections.abc import Mapping
from typing import Any, Final

from workslice_api.pool import WorkspacePool
from workslice_api.profile import WorkspaceProfile
from workslice_api.quantity import duration_seconds
from workslice_operator.render.identity import child_metadata, engine_selector
from workslice_operator.render.termination import termination

_DEADLINE_RESERVE: Final = 60


def deployment(
    pool: WorkspacePool,
    profile: WorkspaceProfile,
    replicas: int,
    template: Mapping[str, Any],
    annotations: Mapping[str, str],
    surges: bool = False,
) -> dict[str, Any]:
    """Manifest with that many replicas of a pod template; the annotations say what is to be remembered of it.

    `surges`: a slice is there for one more, so that no replica need go before its successor is ready.
    """
    ending = termination(pool.spec.drain.timeout, profile.spec.engine.version)
    startup = math.ceil(duration_seconds(profile.spec.engine.startup_timeout))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            **child_metadata(pool),
            "annotations": dict(annotations),
        },
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 3,
            "minReadySeconds": 0,
            # A new replica waits until an old one has drained and given its slice back.
            "progressDeadlineSeconds": startup + ending.grace_period + _DEADLINE_RESERVE,
            "selector": {"matchLabels": engine_selector(pool)},
            # Without a free slice an additional pod would wait for ever for the one that an old pod holds.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": int(surges), "maxUnavailable": int(not surges)},
            },
            "template": dict(template),
        },
    }
