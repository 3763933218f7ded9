"""Serves a model on the CPU. Takes the arguments of `vllm serve`: the model, then flags.

`vllm serve` itself imports all of vLLM's commands first, which costs half as much processor time again before the engine is
ready. The server below is the same.
"""

import os
import sys

NICENESS = 10  # an engine spins while it waits; at equal priority it starves whoever shares its cores


def server_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments for the server, which wants the model as a flag."""
    if arguments and not arguments[0].startswith("-"):
        return ["--model", *arguments]
    return arguments


if __name__ == "__main__":  # the engine's own process imports this file again
    os.nice(NICENESS)
    try:
        from vllm.entrypoints.launchers.api_server.entry import main
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise
        sys.exit(
            "there is no vLLM in /opt/vllm: mount the engine environment there, or build this image with "
            "--build-arg ENGINE_ENVIRONMENT=installed"
        )
    sys.argv = ["vllm serve", *server_arguments(sys.argv[1:])]
    main()
