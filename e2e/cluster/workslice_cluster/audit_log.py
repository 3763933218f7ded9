"""Who wrote what to the Kubernetes API, and in which order: reads the API server's audit log."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from workslice_cluster.cluster_error import ClusterError
from workslice_cluster.instance import Instance

_POD = "authentication.kubernetes.io/pod-name"
_READS = tuple(f'"verb":"{verb}"' for verb in ("get", "list", "watch"))


@dataclass(frozen=True)
class Write:
    """One request that changes something, whether the API granted it or not; times are the API server's."""

    account: str
    """Such as system:serviceaccount:NAMESPACE:NAME."""
    pod: str
    """Name of the pod whose token was used; empty for tokens of no pod."""
    verb: str
    """create, update, patch, delete or deletecollection."""
    resource: str
    """Plural name, with the subresource behind a slash."""
    namespace: str
    name: str
    status: int
    """HTTP status of the answer."""
    began: datetime
    ended: datetime


@dataclass(frozen=True)
class Turn:
    """Writes of one pod that no other pod's write came between."""

    pod: str
    began: datetime
    ended: datetime
    """The latest end of any of the writes."""
    writes: int


def path_of(instance: Instance) -> Path:
    """Return the file that the API server writes to; rotated ones lie beside it."""
    return instance.log / "audit.log"


def writes_since(instance: Instance, account: str, since: datetime) -> list[Write]:
    """Return the writes of a service account that began at `since` (with its zone) or later, in the order in which they began.

    Raises ClusterError when there is no log.
    """
    # Parsing the reads, which are most of it, would take most of the time.
    lines = (line for line in lines_of(instance) if not is_read(line))
    found = (write for write in parsed(lines) if write.account == account and write.began >= since)
    return sorted(found, key=lambda write: write.began)


def is_read(line: str) -> bool:
    """Say whether a line of the log is about a request that changes nothing, without parsing it."""
    return any(read in line for read in _READS)


def lines_of(instance: Instance) -> Iterator[str]:
    """Return the lines of the log, rotated files included, in no order. Raises ClusterError when there is none."""
    current = path_of(instance)
    if not current.exists():
        raise ClusterError(
            f"there is no {current}: the cluster was started by an older checkout; run `down`, then `up`"
        )
    for file in current.parent.glob(f"{current.stem}*{current.suffix}"):
        yield from _lines(file)


def parsed(lines: Iterable[str]) -> Iterator[Write]:
    """Return the completed requests in lines of an audit log."""
    for line in lines:
        event = json.loads(line)
        if event["stage"] != "ResponseComplete":
            continue
        user, about = event["user"], event.get("objectRef", {})
        yield Write(
            user["username"],
            next(iter(user.get("extra", {}).get(_POD, ())), ""),
            event["verb"],
            "/".join(filter(None, (about.get("resource"), about.get("subresource")))),
            about.get("namespace", ""),
            about.get("name", ""),
            event.get("responseStatus", {}).get("code", 0),
            datetime.fromisoformat(event["requestReceivedTimestamp"]),
            datetime.fromisoformat(event["stageTimestamp"]),
        )


def turns(writes: Iterable[Write]) -> list[Turn]:
    """Return who wrote in turn; `writes` are in the order in which they began."""
    found: list[Turn] = []
    for write in writes:
        if found and found[-1].pod == write.pod:
            last = found.pop()
            found.append(Turn(last.pod, last.began, max(last.ended, write.ended), last.writes + 1))
        else:
            found.append(Turn(write.pod, write.began, write.ended, 1))
    return found


def _lines(file: Path) -> Iterator[str]:
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # the last one may be half written
            yield line
