"""The hook as shells run it, each with processes and a network of its own."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from workslice_operator.render.pre_stop import pre_stop, starts

ALONE = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
SHELLS = [["dash"], ["bash"], *([["busybox", "sh"]] if shutil.which("busybox") else [])]
"""Debian has the first two everywhere."""


@pytest.fixture(scope="module")
def alone() -> None:
    """Fails where processes cannot be put into namespaces of their own: without that nothing here says what the hook kills."""
    try:
        tried = subprocess.run([*ALONE, "true"], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.fail(
            "the hook is tested in namespaces of its own, by unshare, which is missing: apt-get install util-linux"
        )
    if tried.returncode != 0:
        pytest.fail(
            f"the hook is tested in namespaces of its own, which are refused here ({tried.stderr.strip()}): run as root, or let users "
            "make namespaces (sysctl -w user.max_user_namespaces=1000; a container needs --privileged)"
        )


def container(shell: list[str], first: str) -> "subprocess.CompletedProcess[str]":
    """Run a Python program as process 1 of a container; HOOK in it is the command of the hook, which waits for one second."""
    hook = [*shell, "-c", pre_stop(1)["exec"]["command"][-1]]
    program = f"HOOK = {hook!r}\n{first}"
    return subprocess.run(
        # A container begins with no signal ignored; tests that a shell runs in the background begin without the interrupt.
        ["env", "--default-signal=INT", *ALONE, sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )


def says_that_it_starts(shell: list[str], port: int) -> bool:
    asked = subprocess.run([*shell, "-c", f"{starts(port)}starts"], check=False, capture_output=True)
    assert asked.returncode in (0, 1), asked.stderr
    return asked.returncode == 0


@pytest.fixture(params=SHELLS, ids=lambda words: words[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def bound(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    with closing(socket.socket(request.param)) as one:
        try:
            one.bind(("127.0.0.1" if request.param == socket.AF_INET else "::1", 0))
        except OSError as error:
            pytest.fail(
                f"engines listen on IPv4 or IPv6, and the loopback device has no such address here ({error}): "
                "sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0"
            )
        yield one


def test_an_engine_starts_until_it_listens(shell: list[str], bound: socket.socket) -> None:
    port = bound.getsockname()[1]
    assert says_that_it_starts(shell, port)
    bound.listen()
    assert not says_that_it_starts(shell, port)


def test_a_connection_from_or_to_a_port_of_that_number_is_no_engine(shell: list[str], bound: socket.socket) -> None:
    bound.listen()
    with closing(socket.create_connection(bound.getsockname()[:2])) as mine:
        assert says_that_it_starts(shell, mine.getsockname()[1])


def test_an_engine_whose_sockets_nobody_can_see_is_not_taken_for_one_that_starts(shell: list[str]) -> None:
    blind = starts(1).replace("/proc/net/tcp", "/proc/no/such/table")
    asked = subprocess.run([*shell, "-c", f"{blind}starts"], check=False, capture_output=True)
    assert asked.returncode == 1


@pytest.mark.usefixtures("alone")
def test_the_core_of_a_starting_engine_is_killed_after_the_hook_has_ended_well(shell: list[str]) -> None:
    ended = container(
        shell,
        """
import signal, subprocess, sys
signal.signal(signal.SIGINT, lambda *_: None)
core = subprocess.Popen(["sleep", "60"])
print("the hook ended with", subprocess.run(HOOK).returncode)
sys.exit(f"the core ended with {core.wait()}")
""",
    )
    assert (ended.stdout, ended.stderr) == ("the hook ended with 0\n", "the core ended with -9\n")


@pytest.mark.usefixtures("alone")
def test_an_engine_that_imports_is_interrupted(shell: list[str]) -> None:
    ended = container(shell, "import subprocess, time\nsubprocess.run(HOOK, check=True)\ntime.sleep(60)\n")
    assert "KeyboardInterrupt" in ended.stderr


@pytest.mark.usefixtures("alone")
def test_an_engine_that_serves_is_left_alone(shell: list[str]) -> None:
    ended = container(
        shell,
        """
import socket, subprocess, time
server = socket.create_server(("", 8000))
core = subprocess.Popen(["sleep", "60"])
began = time.monotonic()
subprocess.run(HOOK, check=True)
waited = time.monotonic() - began
time.sleep(1.5)
print(waited >= 1, core.poll())
""",
    )
    assert (ended.stdout, ended.stderr) == ("True None\n", "")
