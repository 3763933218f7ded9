"""Every helm command of the documentation sets values that the chart knows."""

import itertools
import re
import shlex
from pathlib import Path

import pytest
from rendered_chart import CHART, helm

from workslice_cluster.client_tools import CURRENT, OLDEST_HELM, Distribution

DOCS = Path(__file__).parents[2] / "docs"


def helm_commands() -> list[str]:
    """`helm install` and `helm upgrade` commands for Workslice in the shell blocks, continuation lines joined."""
    blocks = re.findall(r"```sh\n(.*?)```", (DOCS / "install.md").read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if re.match(r"\s*helm (install|upgrade) workslice ", line)]


def test_the_documentation_holds_helm_commands() -> None:
    assert len(helm_commands()) > 5


@pytest.mark.parametrize("of", [CURRENT, OLDEST_HELM], ids=["Helm 4", "the oldest Helm"])
@pytest.mark.parametrize("command", helm_commands())
def test_a_documented_command_renders(command: str, of: Distribution) -> None:
    words = shlex.split(command, comments=True)
    assert words[3] == "charts/workslice"
    settings = [word for flag, value in itertools.pairwise(words) if flag == "--set" for word in (flag, value)]
    result = helm("template", "workslice", str(CHART), "--namespace", "workslice-system", *settings, of=of)
    assert result.returncode == 0, result.stderr
