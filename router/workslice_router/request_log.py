"""One line in the log for every request that failed, and at level debug for the others. Never a key, a prompt or an answer."""

import logging
from collections.abc import Mapping
from typing import Any

from workslice_router.admission import Lease
from workslice_router.incoming_request import IncomingRequest
from workslice_router.openai_errors import Refusal

log = logging.getLogger("workslice_router.requests")


def log_everything() -> bool:
    """Whether requests that went well are logged, too."""
    return log.isEnabledFor(logging.DEBUG)


def log_refusal(request: IncomingRequest, request_id: bytes, reason: Refusal, seconds: float) -> None:
    """A request that ended with an error of the router's own."""
    log_request(request, request_id, reason.status, seconds, failed=True, reason=reason.reason.value)


def log_end(
    request: IncomingRequest,
    request_id: bytes,
    status: int,
    seconds: float,
    place: Lease | None,
    retries: int,
    failure: Mapping[str, str],
) -> None:
    """A request that asked for a place has ended; `failure` says why when it did not go well."""
    where = {"pool": "", "requestClass": "", "replica": ""}
    if place is not None:
        where = {"pool": place.pool.key, "requestClass": place.class_name, "replica": place.replica.uid}
    failed = "reason" in failure
    log_request(request, request_id, status, seconds, failed=failed, **where, retries=retries, **failure)


def log_request(
    request: IncomingRequest, request_id: bytes, status: int, seconds: float, *, failed: bool, **more: Any
) -> None:
    """A request has ended with `status` after `seconds`."""
    level = logging.INFO if failed else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        "requestId": request_id.decode("ascii", "replace"),
        "endpoint": request.endpoint.path if request.endpoint else "",
        "caller": request.caller,
        "status": status,
        "milliseconds": round(seconds * 1000, 1),
        **more,
    }
    log.log(level, "request failed" if failed else "request", extra={"fields": fields})
