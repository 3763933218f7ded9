import asyncio
import logging

import pytest
from fake_kube import FakeKube

from workslice_operator import crds_present
from workslice_operator.crds_present import wait_for_crds
from workslice_operator.kube_api import KubeError, Refused, Unavailable


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crds_present, "LOOK_SECONDS", 0.01)


async def test_it_returns_at_once_when_everything_is_there() -> None:
    await asyncio.wait_for(wait_for_crds(FakeKube()), timeout=1)


async def test_it_waits_for_both_kinds_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    kube = FakeKube()
    kube.kinds = frozenset({"workspaceprofiles"})
    waiting = asyncio.create_task(wait_for_crds(kube))
    await asyncio.wait({waiting}, timeout=0.1)
    assert not waiting.done()
    assert "workspacepools" in caplog.text
    assert "apply the files in crds/" in caplog.text
    assert len(caplog.records) == 1, "once in ten seconds"
    kube.kinds |= {"workspacepools"}
    await asyncio.wait_for(waiting, timeout=5)


@pytest.mark.parametrize("error", [Unavailable(0, "connection refused"), Refused(403, "may not list workspacepools")])
async def test_it_waits_out_an_api_that_does_not_answer(error: KubeError, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    kube = FakeKube()
    kube.failures["list", "WorkspacePool"] = error
    waiting = asyncio.create_task(wait_for_crds(kube))
    await asyncio.wait({waiting}, timeout=0.1)
    assert error.message in caplog.text
    kube.failures.clear()
    await asyncio.wait_for(waiting, timeout=5)
