"""What the operator wrote to the API, by the API server's audit log."""

from collections import Counter
from datetime import UTC, datetime

from demo.installation import NAMESPACE, RELEASE

from workslice_cluster.audit_log import writes_since
from workslice_cluster.instance import Instance

_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-operator"


def written_since(instance: Instance, began: datetime) -> Counter[str]:
    """Granted writes by verb and resource, but for the Lease, which is renewed all the time."""
    found = writes_since(instance, _ACCOUNT, began)
    return Counter(f"{one.verb} {one.resource}" for one in found if one.resource != "leases")


def now() -> datetime:
    return datetime.now(UTC)
