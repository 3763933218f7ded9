import os
import runpy
import signal
import socket

import pytest

from workslice_cluster.repository import repository

script = runpy.run_path(str(repository() / "images/vllm/serve_on_cpu.py"))
server_arguments, leave_to_the_server = script["server_arguments"], script["leave_to_the_server"]


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["/models/tiny", "--port", "8000"], ["--model", "/models/tiny", "--port", "8000"]),
        (["owner/name"], ["--model", "owner/name"]),
        (["--model", "/models/tiny"], ["--model", "/models/tiny"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_the_first_word_is_the_model_as_for_vllm_serve(given: list[str], passed_on: list[str]) -> None:
    assert server_arguments(given) == passed_on


def test_a_forked_engine_holds_no_port_of_its_server_and_keeps_its_other_connections() -> None:
    kept, engines_end = socket.socketpair()
    with kept, engines_end, socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        engine = os.fork()
        if engine == 0:
            leave_to_the_server()
            engines_end.send(b"left")
            signal.pause()
        try:
            assert kept.recv(4) == b"left"
            server.close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=5)
        finally:
            os.kill(engine, signal.SIGKILL)
            os.waitpid(engine, 0)
