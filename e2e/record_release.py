"""Writes down what a release leaves in a cluster: `PYTHONPATH=. .venv/bin/python e2e/record_release.py COMMIT`.

Operator, CRDs, rights and GPU examples of that commit run on an API without nodes until the pools are Ready, with pods as a kubelet would
have them. What was written then goes to e2e/releases, and test_previous_release.py hands it to the present operator. A record is never
made again: it is what clusters hold.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from demo.waiting import NotYet, wait_until

from bare_api import SYSTEM, BareApi, bare_api
from faulty_api import faulty_api
from operator_process import operator_process
from played_kubelet import run_as_a_kubelet_would
from scratch import Scratch
from served_crds import serve, with_given_up_field
from workslice_api.names import FIELD_MANAGER, READY_TEMPLATE_ANNOTATION
from workslice_cluster.repository import repository

RELEASES = Path(__file__).parent / "releases"
_CHILDREN = "deployments,services,poddisruptionbudgets,networkpolicies"
_READY_SECONDS = 120


def record(commit: str, folder: Path) -> Path:
    """Run the release of a commit with `folder` for its files, and return the file that was written."""
    release = folder / "release"
    release.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=repository(), stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(release)], input=archive, check=True)
    version = yaml.safe_load((release / "charts" / "workslice" / "Chart.yaml").read_text())["version"]
    os.environ["PYTHONPATH"] = f"{release}/operator:{release}/crds"  # before what is installed
    with bare_api(folder / "api") as bare, faulty_api(bare) as proxy:
        found = [_bare_of_words(yaml.safe_load(file.read_text())) for file in sorted((release / "crds").glob("*.yaml"))]
        serve(bare, with_given_up_field(found))
        rights = ("--namespace", SYSTEM, "--show-only", "templates/operator-rbac.yaml")
        bare.cluster.apply(bare.cluster.helm("template", "workslice", str(release / "charts" / "workslice"), *rights))
        examples = release / "examples" / "gpu"
        for name in ("namespace", "profiles", "pools"):
            bare.cluster.apply((examples / f"{name}.yaml").read_text(), "--server-side", "--field-manager=people")
        with operator_process(folder, proxy.url) as running:
            running.wait_until_it_leads()
            _get_ready(bare)
        document = {"crds": found, "objects": _objects(bare), "applied": _applied(bare)}
    name = subprocess.run(
        ["git", "rev-parse", "--short", commit], cwd=repository(), stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    file = RELEASES / f"{version}-{name.strip()}.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False, width=140))
    return file


def _bare_of_words(value: Any) -> Any:
    """A schema without its descriptions, which decide nothing."""
    if isinstance(value, dict):
        return {
            key: _bare_of_words(one) for key, one in value.items() if key != "description" or not isinstance(one, str)
        }
    return [_bare_of_words(one) for one in value] if isinstance(value, list) else value


def _get_ready(bare: BareApi) -> None:
    pools = bare.cluster.objects("wspool")

    def started() -> None:
        if len(bare.cluster.objects("deployments")) < len(pools):
            raise NotYet("a Deployment is missing")

    def remembered() -> None:
        for one in bare.cluster.objects("deployments"):
            if READY_TEMPLATE_ANNOTATION not in one["metadata"]["annotations"]:
                raise NotYet(f"{one['metadata']['name']} has no template that was ready")

    wait_until("the Deployments", started, seconds=_READY_SECONDS)
    for one in bare.cluster.objects("deployments"):
        scratch = Scratch(bare.cluster, one["metadata"]["namespace"], "", Path())
        run_as_a_kubelet_would(scratch, one["metadata"]["name"])
    wait_until("the templates that were ready", remembered, seconds=_READY_SECONDS)
    for pool in pools:
        where = Scratch(bare.cluster, pool["metadata"]["namespace"], "", Path())
        where.wait_for("Ready", "True", "PoolReady", pool=pool["metadata"]["name"], seconds=_READY_SECONDS)


def _objects(bare: BareApi) -> list[dict[str, Any]]:
    """Namespaces, profiles and pools, with what tells others apart of their metadata."""
    kept = ("name", "namespace", "labels", "uid")
    spaces = bare.cluster.objects("namespaces", selector="pod-security.kubernetes.io/enforce")
    found = [
        *({key: one[key] for key in ("apiVersion", "kind", "metadata")} for one in spaces),
        *bare.cluster.objects("wsprof"),
        *bare.cluster.objects("wspool"),
    ]
    return [one | {"metadata": {key: one["metadata"][key] for key in kept if key in one["metadata"]}} for one in found]


def _applied(bare: BareApi) -> list[dict[str, Any]]:
    """Of the pools' children the fields that the operator has applied."""
    text = bare.cluster.kubectl("get", _CHILDREN, "-A", "-o", "json", "--show-managed-fields")
    found = []
    for raw in json.loads(text)["items"]:
        for entry in raw["metadata"]["managedFields"]:
            if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (FIELD_MANAGER, "Apply", ""):
                owned = _owned(raw, entry["fieldsV1"])
                named = {key: raw["metadata"][key] for key in ("name", "namespace")}
                head = {"apiVersion": raw["apiVersion"], "kind": raw["kind"]}
                found.append(head | owned | {"metadata": named | owned["metadata"]})
    return found


def _owned(value: Any, fields: Mapping[str, Any]) -> Any:
    """The part of a value that a set of managed fields names (`f:` a field, `k:` the element with these keys, `v:` a member)."""
    below = {key: one for key, one in fields.items() if key != "."}
    if not below:
        return value
    if isinstance(value, dict):
        # What is zero or empty is not shown.
        return {key[2:]: _owned(value[key[2:]], one) for key, one in below.items() if key[2:] in value}
    # In the order that they have: that of a container's variables is a part of its pod template.
    named = [(key[0], json.loads(key[2:]), one) for key, one in below.items()]
    return [
        element if kind == "v" else _owned(element, one)
        for element in value
        for kind, name, one in named
        if (element == name if kind == "v" else all(element.get(key) == part for key, part in name.items()))
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(record(sys.argv[1], Path(made)))
