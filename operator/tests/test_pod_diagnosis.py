from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pool_facts import NOW, make_exit, make_pod, ready_pod, unplaced_pod

from workslice_api.names import Reason
from workslice_operator.observed import ContainerExit, ModelFetch, Obstacle
from workslice_operator.pod_diagnosis import Diagnosis, diagnose

LOGS = Path(__file__).parent / "engine_logs"


def found(pod: Any) -> Diagnosis:
    diagnosis = diagnose(pod, "shop", 600, NOW)
    assert diagnosis is not None
    return diagnosis


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(age=599),
        make_pod(waiting_reason="ContainerCreating"),
        ready_pod(restarts=3, last_exit=make_exit()),
        unplaced_pod("a", "0/1 nodes are available"),
        make_pod(deleting=True, last_exit=make_exit()),
    ],
    ids=["starting", "being made", "recovered", "without a place", "going"],
)
def test_pods_without_a_fault_have_no_diagnosis(pod: Any) -> None:
    assert diagnose(pod, "shop", 600, NOW) is None


def test_a_refused_flag_is_quoted_with_what_to_correct() -> None:
    log = (LOGS / "unrecognized_flag.txt").read_text()
    diagnosis = found(make_pod(waiting_reason="CrashLoopBackOff", restarts=2, last_exit=make_exit(log, exit_code=2)))
    assert diagnosis.reason is Reason.ENGINE_FAILED
    assert diagnosis.message == (
        "short-engine-a ended: unrecognized arguments: --foo; correct engine.extraArgs of the profile"
    )


def test_a_failure_stays_visible_while_the_engine_tries_again() -> None:
    again = make_pod(restarts=1, last_exit=make_exit((LOGS / "missing_path.txt").read_text()))
    assert "the model path /models/none does not exist" in found(again).message


def test_a_crash_that_nobody_can_explain_names_the_command_that_shows_the_log() -> None:
    diagnosis = found(make_pod(last_exit=make_exit("strange", exit_code=139)))
    assert diagnosis.reason is Reason.CRASH_LOOPING
    assert diagnosis.message == (
        "short-engine-a ended with exit code 139: strange; see kubectl -n shop logs short-engine-a -c engine --previous"
    )


def test_a_kill_for_memory_names_the_limit_and_the_field() -> None:
    diagnosis = found(make_pod(last_exit=make_exit("ValueError: x", reason="OOMKilled", exit_code=137)))
    assert diagnosis.reason is Reason.OUT_OF_MEMORY
    assert "limit of 8Gi: raise memory.host" in diagnosis.message


@pytest.mark.parametrize("why", ["ImagePullBackOff", "ErrImagePull", "InvalidImageName"])
def test_an_image_that_cannot_be_pulled_is_named(why: str) -> None:
    pod = make_pod(waiting_reason=why, waiting_message='Back-off pulling image "nowhere/vllm:1"\nmore')
    diagnosis = found(pod)
    assert diagnosis.reason is Reason.IMAGE_PULL_FAILED
    assert 'Back-off pulling image "nowhere/vllm:1"; check engine.image' in diagnosis.message


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        (
            'MountVolume.SetUp failed for volume "c" : configmap "x" not found',
            "create what it names, or correct template",
        ),
        (
            'MountVolume.SetUp failed for volume "m" : hostPath type check failed: /m is not a directory',
            "make that folder",
        ),
        ('Multi-Attach error for volume "m" Volume is already used by pod(s) b', "access mode ReadOnlyMany"),
        ("MountVolume.SetUp failed: rpc error", "kubectl -n shop describe pod short-engine-a"),
    ],
    ids=["missing", "no folder", "taken", "unknown"],
)
def test_a_volume_that_cannot_be_mounted_is_named_and_not_taken_for_a_slow_start(said: str, advice: str) -> None:
    diagnosis = found(make_pod(age=9000, sandboxed=False, obstacle=Obstacle("FailedMount", said)))
    assert diagnosis.reason is Reason.VOLUME_FAILED
    assert f"a volume of short-engine-a cannot be mounted: {said}; " in diagnosis.message
    assert advice in diagnosis.message


def test_a_node_that_cannot_make_a_sandbox_is_named() -> None:
    failed = Obstacle("FailedCreatePodSandBox", "network: failed to allocate an address")
    diagnosis = found(make_pod(sandboxed=False, obstacle=failed, node="gpu-1"))
    assert diagnosis.reason is Reason.ENGINE_FAILED
    assert (
        "node gpu-1 cannot make the sandbox of short-engine-a: network: failed to allocate an address"
        in diagnosis.message
    )


def test_a_missing_secret_is_named() -> None:
    pod = make_pod(waiting_reason="CreateContainerConfigError", waiting_message='secret "hub" not found')
    assert 'secret "hub" not found; create what it names' in found(pod).message


def test_a_start_that_takes_too_long_is_told_as_such() -> None:
    diagnosis = found(make_pod(age=600))
    assert diagnosis.reason is Reason.START_TIMED_OUT
    assert "within 600 s: raise engine.startupTimeout" in diagnosis.message


@pytest.mark.parametrize(
    "ended",
    [
        make_exit("", exit_code=143, lived=603),
        make_exit("KeyboardInterrupt", exit_code=130, lived=603),
        make_exit((LOGS / "engine_core_failed.txt").read_text(), exit_code=1, lived=603),
    ],
    ids=["by SIGTERM", "by SIGINT", "since its core was killed"],
)
def test_an_engine_killed_by_its_startup_probe_timed_out_too(ended: ContainerExit) -> None:
    assert found(make_pod(age=900, last_exit=ended)).reason is Reason.START_TIMED_OUT


def test_an_engine_that_failed_by_itself_at_the_end_of_its_time_is_not_said_to_have_been_too_slow() -> None:
    diagnosis = found(make_pod(age=900, last_exit=make_exit("ValueError: bad", exit_code=1, lived=603)))
    assert diagnosis.reason is not Reason.START_TIMED_OUT


def test_an_engine_that_died_after_long_service_did_not_time_out() -> None:
    ended = make_exit("Aborted", exit_code=134, lived=timedelta(hours=5).total_seconds())
    assert found(make_pod(age=20000, last_exit=ended)).reason is Reason.CRASH_LOOPING


def test_an_engine_that_falls_silent_is_not_said_to_start() -> None:
    assert found(make_pod(age=9000, started=True, silent=True)).reason is Reason.NOT_ANSWERING


def test_a_replica_on_a_lost_node_is_told_as_such_whatever_its_last_status_was() -> None:
    silent = make_pod(age=9000, started=True, silent=True, node="gpu-1")
    crashed = make_pod(age=9000, last_exit=make_exit("ValueError: bad", exit_code=1, lived=60), node="gpu-1")
    for pod in (silent, crashed):
        diagnosis = diagnose(pod, "demo", 600.0, NOW, {"gpu-1"})
        assert diagnosis is not None
        assert diagnosis.reason is Reason.NODE_LOST
        assert "short-engine-a is on node gpu-1" in diagnosis.message
        assert "kubectl describe node gpu-1" in diagnosis.message
    assert diagnose(silent, "demo", 600.0, NOW, {"gpu-2"}) != diagnose(silent, "demo", 600.0, NOW, {"gpu-1"})


def test_an_engine_that_falls_silent_long_after_a_crash_is_not_said_to_crash() -> None:
    crashed = make_exit("ValueError: bad", exit_code=1, lived=60)
    assert found(make_pod(age=9000, started=True, silent=True, last_exit=crashed)).reason is Reason.NOT_ANSWERING


def test_an_engine_between_its_startup_probe_and_its_first_readiness_probe_has_no_fault() -> None:
    assert diagnose(make_pod(age=60, started=True), "demo", 600.0, NOW) is None


def test_a_crash_near_the_timeout_is_still_a_crash() -> None:
    pod = make_pod(age=900, last_exit=make_exit("ValueError: bad", exit_code=1, lived=601))
    assert found(pod).reason is Reason.CRASH_LOOPING


def test_a_dead_engine_core_is_named_with_the_line_that_says_why() -> None:
    log = (LOGS / "engine_core_crashed.txt").read_text()
    diagnosis = found(make_pod(last_exit=make_exit(log, reason="Completed", exit_code=0)))
    assert diagnosis.reason is Reason.CRASH_LOOPING
    assert diagnosis.message.startswith(
        "the EngineCore process of short-engine-a died: torch._inductor.exc.InductorError: "
    )
    assert diagnosis.message.endswith("; see kubectl -n shop logs short-engine-a -c engine --previous")


def test_a_dead_engine_core_whose_cause_is_known_comes_with_what_to_change() -> None:
    log = (
        "(EngineCore pid=77) ERROR 11-30 06:05:57 [core.py:1512] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=77) ERROR 11-30 06:05:57 [core.py:1512] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    diagnosis = found(make_pod(last_exit=make_exit(log, reason="Completed", exit_code=0)))
    assert diagnosis.reason is Reason.ENGINE_FAILED
    assert (
        "died: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB; take a larger slice"
        in diagnosis.message
    )


def test_an_engine_core_that_died_without_a_word_is_named_with_where_to_look() -> None:
    log = (LOGS / "engine_core_killed.txt").read_text()
    diagnosis = found(make_pod(node="gpu-7", last_exit=make_exit(log, reason="Completed", exit_code=0)))
    assert diagnosis.reason is Reason.CRASH_LOOPING
    assert "the EngineCore process of short-engine-a was killed or crashed without a word" in diagnosis.message
    assert "the kernel's log of node gpu-7" in diagnosis.message


def test_an_end_with_exit_code_0_is_explained_even_where_its_log_cannot_be_read() -> None:
    diagnosis = found(make_pod(last_exit=make_exit("", reason="Completed", exit_code=0)))
    assert diagnosis.reason is Reason.CRASH_LOOPING
    assert diagnosis.message.startswith(
        "short-engine-a ended with exit code 0, which vLLM does when its EngineCore process has died, or when it is told to end; see"
    )


def test_an_engine_that_its_liveness_probe_ended_is_told_apart_from_one_whose_core_died() -> None:
    log = "(APIServer pid=1) INFO 11-30 06:05:57 [launcher.py:257] [shutdown] API server: shutdown triggered"
    diagnosis = found(make_pod(last_exit=make_exit(log, reason="Completed", exit_code=0)))
    assert "since it was told to: its liveness probe failed" in diagnosis.message


def test_a_warm_up_that_failed_is_told_and_not_the_kill_that_followed() -> None:
    said = Obstacle("Unhealthy", "/v1/chat/completions answered 400: no chat template")
    diagnosis = found(make_pod(restarts=1, last_exit=make_exit(exit_code=0, lived=90), obstacle=said))
    assert diagnosis.reason is Reason.WARM_UP_FAILED
    assert diagnosis.message == (
        "short-engine-a was not warmed up: /v1/chat/completions answered 400: no chat template; correct engine.warmup of the profile, "
        "or take it out; see kubectl -n shop logs short-engine-a -c engine --previous"
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("RepositoryNotFoundError: 401 for url: https://hub/x If it is private or gated", "correct model.source or"),
        ("GatedRepoError: 403", "give the pool a token"),
        ("https://hub: ConnectError: [Errno 111] Connection refused", "see that pods of the namespace reach the hub"),
        ("OSError: [Errno 28] No space left on device", "take a larger volume"),
        ("PermissionError: [Errno 13] Permission denied: '/model-cache/x'", "must let user 65532"),
        ("strange", "logs short-engine-a -c model-fetch"),
    ],
    ids=["missing", "gated", "unreachable", "full", "not writable", "unknown"],
)
def test_a_model_that_cannot_be_fetched_is_told_with_what_to_do(said: str, advice: str) -> None:
    diagnosis = found(make_pod(age=9000, phase="Pending", fetch=ModelFetch(done=False, failure=said)))
    assert diagnosis.reason is Reason.MODEL_FETCH_FAILED
    assert f"short-engine-a cannot fetch its model: {said}; " in diagnosis.message
    assert advice in diagnosis.message


def test_a_fetch_that_takes_longer_than_a_start_may_take_is_told_as_one() -> None:
    assert diagnose(make_pod(age=599, fetch=ModelFetch(done=False, failure="")), "shop", 600, NOW) is None
    slow = found(make_pod(age=600, fetch=ModelFetch(done=False, failure="")))
    assert slow.reason is Reason.START_TIMED_OUT
    assert "has been fetching its model for more than 600 s and goes on: raise engine.startupTimeout" in slow.message
