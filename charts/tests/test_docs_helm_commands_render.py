"""Every helm command of the documentation sets values that the chart knows."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from rendered_chart import CHART, helm

DOCS = Path(__file__).parents[2] / "docs"


def helm_commands() -> list[str]:
    """`helm install` and `helm upgrade` commands of the shell blocks, continuation lines joined."""
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "install.md").read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if re.match(r"\s*helm (install|upgrade) ", line)]


def test_the_documentation_holds_helm_commands() -> None:
    assert len(helm_commands()) > 5


@pytest.mark.parametrize("command", helm_commands())
def test_a_documented_command_renders(command: str) -> None:
    words = shlex.split(command, comments=True)
    assert words[2:4] == ["workslice", "charts/workslice"]
    settings = [word for flag, value in itertools.pairwise(words) if flag == "--set" for word in (flag, value)]
    result = helm("template", "workslice", str(CHART), "--namespace", "workslice-system", *settings)
    assert result.returncode == 0, result.stderr
