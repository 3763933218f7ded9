"""The chart as plain manifests, for those who install without Helm: what `make manifests` writes to dist/install.yaml.

`python -m demo.install_manifests FILE [words for helm template, such as --set router.replicas=2]`
"""

import sys
from pathlib import Path

from demo.installation import NAMESPACE, RELEASE, SYSTEM_NAMESPACE
from workslice_cluster import client_tools
from workslice_cluster.cache_folder import cache_folder
from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.commands import run
from workslice_cluster.progress import say
from workslice_cluster.repository import repository

_HEAD = f"""\
# Workslice as plain manifests: the chart of this version for namespace {NAMESPACE}, rendered by `make manifests`.
# kubectl apply --server-side -f install.yaml
"""
_CRD = "\nkind: CustomResourceDefinition\n"


def install_manifests(*words: str) -> str:
    """Return the YAML of namespace, CRDs and everything else, in an order in which `kubectl apply` can create them.

    `words` go to `helm template`. Raises ClusterError with what helm says about them.
    """
    helm = client_tools.ensure(cache_folder())["helm"]
    chart = repository() / "charts" / "workslice"
    argv = [helm, "template", RELEASE, chart, f"--namespace={NAMESPACE}", *words]
    documents = run(argv, failure="the chart could not be rendered").removeprefix("---\n").split("\n---\n")
    # helm orders the rest by kind already: accounts, rights, services, deployments.
    ordered = sorted((text.strip() for text in documents), key=lambda text: _CRD not in f"\n{text}\n")
    return _HEAD + "\n---\n".join([SYSTEM_NAMESPACE.strip(), *ordered]) + "\n"


def main(arguments: list[str]) -> None:
    """Write the file. Raises ClusterError when no file is named, or when helm refuses the words."""
    if not arguments or arguments[0].startswith("-"):
        raise ClusterError("usage: python -m demo.install_manifests FILE [words for helm template]")
    file = Path(arguments[0])
    text = install_manifests(*arguments[1:])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    say(
        f"{file} holds namespace {NAMESPACE}, the CRDs, the operator and the routers: kubectl apply --server-side -f {file}"
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ClusterError as error:
        sys.exit(f"error: {error}")
