"""Pods of others may ask for slices in any number that Kubernetes can write."""

import pytest

from workslice_operator.kept_fields import KEPT
from workslice_operator.kube_api import PODS
from workslice_operator.object_store import ObjectStore
from workslice_operator.watched_slices import WatchedSlices


@pytest.mark.parametrize(
    "amount", ["1e3", "1E3", "1k", "1P", "1E", "1Pi", "2Ei", "1000m", "1000000u", "1000000000n", "12e1"]
)
@pytest.mark.parametrize("spec", [{}, {"nodeName": "n"}])
def test_a_pod_that_asks_for_slices_in_a_strange_number_is_counted(amount: str, spec: dict[str, str]) -> None:
    slices = WatchedSlices(lambda _: None)
    store = ObjectStore(KEPT[PODS], slices.pod_changed)
    limits = {"nvidia.com/mig-1g.10gb": amount}
    container = {"name": "x", "resources": {"limits": limits}}
    metadata = {"namespace": "other", "name": "p", "uid": "u", "resourceVersion": "1"}
    assert store.put(
        {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {"phase": "Pending"}}
    )
