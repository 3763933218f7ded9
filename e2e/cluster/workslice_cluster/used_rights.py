"""Which of an account's rights it has used: compares roles with the API server's audit log."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource; an empty namespace or name means all of them."""

    group: str
    resource: str
    """Plural name, with the subresource behind a slash."""
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """`patch deployments.apps`, as kubectl would put it."""
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{self.group and '.'}{self.group}{self.name and ' '}{self.name}{where}"


def rights_of(role: Mapping[str, Any]) -> frozenset[Right]:
    """The rights that a Role or ClusterRole grants."""
    namespace = role["metadata"].get("namespace", "")
    return frozenset(
        Right(group, resource, verb, namespace, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    )


def unused(rights: Iterable[Right], account: str, lines: Iterable[str]) -> frozenset[Right]:
    """The rights that an account made no use of, by the lines of an audit log. A request that was refused used none."""
    left = set(rights)
    for line in lines:
        if account not in line:
            continue
        event = json.loads(line)
        about = event.get("objectRef", {})
        code = event.get("responseStatus", {}).get("code", 0)
        if event["user"]["username"] != account or code in (401, 403):
            continue
        resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource"))))
        verbs = {event["verb"]} | ({"create"} if code == 201 else set())  # an apply that has made the object
        left -= {
            one
            for one in left
            if (one.group, one.resource) == (about.get("apiGroup", ""), resource)
            and one.verb in verbs
            and one.namespace in ("", about.get("namespace", ""))
            and one.name in ("", about.get("name", ""))
        }
        if not left:
            break
    return frozenset(left)
