"""Serves a model on the CPU. Takes the arguments of `vllm serve`: the model, then flags.

Nearly all of a start is imports, and `vllm serve` does them three times: it imports all of vLLM's commands, has the model's class
looked at in a second process and starts the engine in a third. The server below is the same one; it imports once and forks.
"""

import gc
import multiprocessing
import os
import signal
import socket
import stat
import sys

NICENESS = 10  # an engine spins while it waits; at equal priority it starves whoever shares its cores


def server_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments for the server, which wants the model as a flag."""
    if arguments and not arguments[0].startswith("-"):
        return ["--model", *arguments]
    return arguments


def import_once() -> None:
    """Let vLLM look at the model's class in this process and fork the engine from it.

    vLLM keeps both out of its server so that CUDA is first used in the engine, and there is none here.
    """
    from vllm.model_executor.models import registry
    from vllm.v1.engine import utils

    registry._run_in_subprocess = lambda look: look()
    utils.get_mp_context = lambda: multiprocessing.get_context("fork")
    os.register_at_fork(after_in_child=leave_to_the_server)


def leave_to_the_server() -> None:
    """In the engine's process: let go of the server's signals and of its port, which must be closed when the server closes it."""
    signal.set_wakeup_fd(-1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
        except OSError:  # the listing's own
            continue
        with socket.socket(fileno=os.dup(descriptor)) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6):
                os.dup2(nowhere, descriptor)  # its number stays taken: objects of the server that know it are here too
    os.close(nowhere)


if __name__ == "__main__":
    os.nice(NICENESS)
    gc.disable()  # what is imported stays
    try:
        from vllm.entrypoints.launchers.api_server.entry import main
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        sys.exit(
            "there is no vLLM in /opt/vllm: mount the engine environment there, or build this image with "
            "--build-arg ENGINE_ENVIRONMENT=installed"
        )
    import_once()
    gc.enable()
    sys.argv = ["vllm serve", *server_arguments(sys.argv[1:])]
    main()
