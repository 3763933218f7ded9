"""Compiles the router's request path to machine code: `python -m workslice_router.compile_request_path FOLDER`.

FOLDER gets the packages workslice_router and workslice_api; with it first on PYTHONPATH, `python -m workslice_router` runs the compiled
modules. They are the same sources, compiled by mypyc with the types that mypy checks; the sources stay beside them, so that without
the compiled files all runs as before. Needs mypy, setuptools, a C compiler and Python's headers, and about a minute of one core. The
image is built with it; what it gains: docs/decisions/compiled-request-path.md.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import workslice_api
import workslice_router

# What runs for every request. The rest would gain nothing, and pydantic's models cannot be compiled.
MODULES: Final = (
    "admission",
    "affinity",
    "answer_length",
    "attempt",
    "choose",
    "class_line",
    "class_times",
    "classify",
    "client_connection",
    "client_response",
    "contained",
    "data_path",
    "dispatch_cap",
    "ejection",
    "endpoints",
    "engine_connection",
    "engine_gauges",
    "estimate",
    "event_stream",
    "exchange",
    "forwarded_headers",
    "header_line",
    "incoming_request",
    "json_structure",
    "learn_from_answer",
    "learned_pace",
    "mean_request",
    "metrics",
    "place_pace",
    "pool_queue",
    "prefix_places",
    "prompt_prefix",
    "prompt_sizes",
    "quantile_sketch",
    "replica_cap",
    "replica_limits",
    "replica_load",
    "request_body",
    "request_plan",
    "request_reader",
    "response_head",
    "retry_budget",
    "routing_table",
    "session_places",
    "shown_load",
    "soft_choice",
    "splice",
    "text_size",
    "usage",
    "virtual_counters",
    "waiting_room",
    "whole_answer",
    "whole_chunks",
    "whole_request",
)


def compile_into(folder: Path) -> None:
    """Copy both packages into `folder` and compile there.

    Raises:
        SystemExit: mypyc or the C compiler failed; what they said stands above.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution

    folder.mkdir(parents=True, exist_ok=True)
    for package in (Path(workslice_router.__path__[0]), Path(workslice_api.__path__[0])):
        shutil.copytree(
            package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
    os.chdir(folder)  # both tools go by it
    sources = [f"workslice_router/{module}.py" for module in MODULES]
    extensions = mypycify(
        ["--ignore-missing-imports", *sources],
        opt_level="2",
        debug_level="0",
        target_dir="build",
        group_name="workslice_router.request_path",
    )
    for extension in extensions:
        # Nobody replaces functions of this library from outside, so that the compiler may call and inline them directly.
        extension.extra_compile_args = [*extension.extra_compile_args, "-fno-semantic-interposition"]
    distribution = Distribution(
        {"name": "workslice-router-compiled", "ext_modules": extensions, "packages": ["workslice_router"]}
    )
    command = distribution.get_command_obj("build_ext")
    command.inplace = True
    command.ensure_finalized()
    command.run()
    shutil.rmtree("build")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m workslice_router.compile_request_path FOLDER")
    compile_into(Path(sys.argv[1]).absolute())
