"""One request from its last byte to its settled account: placed, tried on a replica and perhaps on another, answered, settled.

Everything happens in callbacks of connections and queues; nothing here waits. However a request ends, it ends in `_settle`, once.
"""

import logging
from math import inf
from typing import TYPE_CHECKING, Final

from workslice_router.admission import Lease
from workslice_router.attempt import Attempt
from workslice_router.client_response import ClientResponse
from workslice_router.contained import contained
from workslice_router.data_path import DataPath
from workslice_router.degrade import lesser_place
from workslice_router.ejection import Outcome
from workslice_router.engine_failure import MAX_RETRIES, EngineError, Failure
from workslice_router.forwarded_headers import client_response_lines, header_lines, own_lines, own_lines_of_place
from workslice_router.incoming_request import IncomingRequest
from workslice_router.learn_from_answer import learn_from_answer
from workslice_router.openai_errors import Reason, Refusal, Refused, refusal, sse_error_event
from workslice_router.request_body import RequestView, read_request_body
from workslice_router.request_log import log_end, log_everything
from workslice_router.request_plan import Plan
from workslice_router.splice import upstream_body
from workslice_router.usage import find_usage
from workslice_router.waiting_room import Ticket

if TYPE_CHECKING:
    from workslice_router.client_connection import ClientConnection

CLIENT_GONE_STATUS: Final = 499
"""Status in log and metrics of a request whose client did not wait for the answer."""
COMMITTED_STATUS: Final = 200
"""What a client has seen of a stream that got keep-alive comments, whatever came of it."""
UNAVAILABLE_STATUS: Final = 503

log = logging.getLogger("workslice_router.data_path")


class Exchange:
    """The state of one request to an engine."""

    __slots__ = (
        "_attempt",
        "_body",
        "_client",
        "_comment_at",
        "_data_path",
        "_degraded",
        "_last_lease",
        "_lease",
        "_path",
        "_plan",
        "_request",
        "_request_id",
        "_response",
        "_retries",
        "_settled",
        "_ticket",
        "_tried",
        "_view",
    )

    def __init__(self, data_path: DataPath, client: "ClientConnection", request: IncomingRequest) -> None:
        self._data_path = data_path
        self._client = client
        self._request = request
        self._request_id = client.request_id(request)
        self._path = request.endpoint.path if request.endpoint is not None else ""
        self._response = ClientResponse(client, request)
        self._body = request.body
        request.body_parts.clear()
        self._view: RequestView
        self._plan: Plan
        self._ticket: Ticket | None = None
        self._lease: Lease | None = None
        self._last_lease: Lease | None = None  # stays after the lease is settled, for headers and log
        self._attempt: Attempt | None = None
        self._retries = 0
        self._tried: frozenset[str] = frozenset()
        self._settled = False
        self._comment_at = inf
        self._degraded = b""

    # --- placing ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Read the request's body and ask for a place."""
        self._data_path.exchanges.add(self)
        requested = self._request.header(b"x-workslice-class")
        try:
            prefix, counted = self._data_path.table.has_levels, self._request.parts_count is not None
            self._view = read_request_body(self._body, self._path, prefix=prefix, counted=counted)
            requested_class = requested.decode("ascii", "replace") if requested is not None else None
            session = self._request.header(b"x-workslice-session")
            self._plan = plan = self._data_path.admission.plan(self._view, requested_class, session)
            if plan.chosen.times.keep_alive is not None and self._view.stream:
                self._comment_at = self._request.received_at + plan.chosen.times.keep_alive
            self._submit()
        except Refused as refused:
            self._refuse(refused.refusal)
        except Exception:
            self.fail_internally()

    def _submit(self) -> None:
        try:
            got = self._data_path.admission.submit(self._plan, self, body_bytes=len(self._body), excluded=self._tried)
        except Refused as refused:
            if not self._ask_for_less(refused.refusal):
                raise
        else:
            self._placed(got)

    def _ask_for_less(self, cause: Refusal) -> bool:
        """Rather than be refused for want of a place, where the pools of the request's class say so; once."""
        if self._degraded:
            return False
        admission = self._data_path.admission
        found = lesser_place(admission, cause, self._plan, self._view, self._body, self._path, self, self._tried)
        if found is None:
            return False
        lesser, self._plan, got = found
        if isinstance(got, Lease) and cause.reason is Reason.QUEUE_TIMEOUT:
            got.queued_seconds = self._data_path.loop.time() - self._request.received_at
        self._degraded, self._view, self._body = lesser.says, lesser.view, lesser.body
        self._data_path.metrics.degraded(lesser.pool, lesser.step)
        self._placed(got)
        return True

    def _placed(self, got: Lease | Ticket) -> None:
        if isinstance(got, Lease):
            self._try(got)
        else:
            self._ticket = got

    @property
    def caller(self) -> str:
        """Who shares queues fairly with others: the name of the API key used, else the client's address."""
        return self._request.caller or self._client.address

    @contained
    def granted(self, lease: Lease) -> None:
        """The pool's queue has a place. Runs inside whatever freed the place, so it must not raise."""
        self._ticket = None
        self._try(lease)

    @contained
    def refused(self, cause: Refusal) -> None:
        """The pool's queue gives up on this request."""
        self._ticket = None
        if not self._ask_for_less(cause):
            self._refuse(cause)

    def _try(self, lease: Lease) -> None:
        self._lease = self._last_lease = lease
        attempt = self._attempt = Attempt(
            self._data_path, self, lease, self._response, self._own_lines(lease), self._request.received_at
        )
        body = upstream_body(self._body, self._view, lease.pool.spec.model, lease.priority)
        # Engines need ids that are unique; clients may repeat theirs, and so does a second attempt.
        engine_id = self._data_path.engine_request_id(self._request_id)
        attempt.start(self._path, self._request.passed_lines, engine_id, body)
        if self._client.write_paused:
            attempt.pause()

    def _own_lines(self, lease: Lease | None) -> bytes:
        if lease is None:
            lines = own_lines(self._request_id)
        else:
            pool = lease.pool.spec
            uid, waited = lease.replica.spec.uid, lease.queued_seconds
            lines = own_lines_of_place(self._request_id, lease.class_name, pool.key, uid, pool.context_tokens, waited)
        return lines + b"x-workslice-degraded: %b\r\n" % self._degraded if self._degraded else lines

    # --- how an attempt ends ----------------------------------------------------------------------------------------------

    def begun(self) -> None:
        """There will be no other attempt: what was sent is no longer needed."""
        self._body = b""
        self._request.forget_headers()
        self._comment_at = inf

    @contained
    def failed(self, failure: Failure) -> None:
        """The attempt failed and the client has seen nothing: another replica, or an error."""
        lease, detail = self._lease, failure.detail
        assert lease is not None
        if failure.retryable and self._retries < MAX_RETRIES and self._body:
            if lease.pool.may_retry(self._data_path.loop.time()):
                try:
                    self._retry(failure.outcome)
                    return
                except Refused as refused:
                    lease.pool.retries.give_back()
                    # "Unreachable" says that there is nobody else; then the failure itself says more.
                    if refused.refusal.reason is not Reason.ENGINE_UNREACHABLE:
                        self._refuse(refused.refusal)
                        return
            else:
                self._data_path.metrics.retry_refused(lease.pool.key, failure.outcome)
                detail = f"{detail or failure.outcome.value}; not tried again, since many requests of this pool were"
        if failure.outcome is Outcome.TOO_LONG and self._body and self._try_larger():
            return
        if failure.error is not None and failure.outcome is not Outcome.DRAINING:
            self._pass_on(failure.error, detail)
            return
        if failure.outcome in (Outcome.TIMEOUT, Outcome.TOO_SLOW):
            reason = refusal(Reason.ENGINE_TIMEOUT, seconds=failure.seconds)
        elif failure.outcome in (Outcome.RESET, Outcome.ABORTED, Outcome.ENGINE_ERROR):
            reason = refusal(Reason.ENGINE_FAILED, detail=detail, retry_after=1)
        else:
            reason = refusal(Reason.ENGINE_UNREACHABLE, model=self._view.model, retry_after=1)
        self._refuse(reason, failure.outcome, detail)

    def _retry(self, outcome: Outcome) -> None:
        """Give this replica back and ask for another; raises Refused when there is none."""
        lease, self._lease = self._lease, None
        assert lease is not None
        self._attempt = None
        self._retries += 1
        self._tried |= {lease.replica.uid}
        self._plan = lease.settle_to_retry(self._plan, outcome)
        self._submit()
        self._data_path.metrics.retried(lease.pool.key, outcome)

    def _try_larger(self) -> bool:
        """The estimate was too small for this pool's context: ask a larger pool, if the model has one."""
        lease = self._lease
        assert lease is not None
        try:
            plan = self._data_path.admission.larger(lease, self._view)
            if plan is None:
                return False
            self._plan = plan
            self._retry(Outcome.TOO_LONG)
        except Refused as refused:
            if refused.refusal.status == UNAVAILABLE_STATUS:
                return False  # nobody is there to count better: what the engine says of the prompt's length stands
            self._refuse(refused.refusal)
        return True

    def _pass_on(self, error: EngineError, detail: str) -> None:
        """The engine's error is the answer."""
        body, headers = error.openai_body, error.headers
        if body is not error.body:
            headers = [header for header in headers if header[0] != b"content-type"]
            headers.append((b"content-type", b"application/json"))
        if error.outcome is Outcome.BUSY and not any(name == b"retry-after" for name, _ in headers):
            headers = [*headers, (b"retry-after", b"1")]
        lines = client_response_lines(headers)
        self._answer_error(error.outcome, error.status, lines, body, reason="engine_answer", detail=detail)

    def _refuse(self, cause: Refusal, outcome: Outcome = Outcome.CLIENT_GONE, detail: str = "") -> None:
        """Answer with an error of the router's own."""
        self._data_path.metrics.refused(cause.reason)
        if cause.pool:
            self._data_path.admission.rejected(cause)
        lines = header_lines(cause.headers)
        self._answer_error(outcome, cause.status, lines, cause.body, reason=cause.reason.value, detail=detail)

    def _answer_error(self, outcome: Outcome, status: int, lines: bytes, body: bytes, **failure: str) -> None:
        """With its status, or as an event where the client has seen a status already."""
        if self._response.committed:
            self._settle(outcome, COMMITTED_STATUS, **failure)
            self._response.cut(sse_error_event(body))
        else:
            self._settle(outcome, status, **failure)
            self._client.respond(self._request, status, lines + self._own_lines(self._last_lease), body)

    @contained
    def cut(self, outcome: Outcome, reason: Refusal | None) -> None:
        """The client has a part of the answer and gets no more: say so in the stream, and end it without its end."""
        attempt = self._attempt
        assert attempt is not None
        last = sse_error_event(reason.body) if reason is not None and attempt.is_event_stream else b""
        self._data_path.metrics.refused(reason.reason if reason is not None else Reason.STREAM_INTERRUPTED)
        self._settle(
            outcome, attempt.status, reason=reason.reason.value if reason is not None else "engine_error_event"
        )
        self._response.cut(last)

    def complete(self, status: int, usage_text: bytes, ended_by_length: bool, events: int) -> None:
        """The whole answer is relayed."""
        try:  # what @contained does, without the call through its wrapper for every request
            self._complete(status, usage_text, ended_by_length, events)
        except Exception:
            self.fail_internally()

    def _complete(self, status: int, usage_text: bytes, ended_by_length: bool, events: int) -> None:
        lease = self._lease
        assert lease is not None
        usage = find_usage(usage_text)
        if usage is not None:
            self._data_path.metrics.tokens(lease.pool.key, usage.prompt_tokens, usage.completion_tokens)
            lease.used(usage.prompt_tokens, usage.completion_tokens)
            self._data_path.estimator.learn_prompt(lease.pool.spec.model, self._view, usage.prompt_tokens)
        learn_from_answer(self._data_path, lease, self._view, usage, events, ended_by_length=ended_by_length)
        self._settle(Outcome.OK, status)
        self._response.end()

    # --- from outside -----------------------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client has closed its connection: nobody waits for the answer."""
        if self._settled:
            return
        self._data_path.metrics.client_gone(self._last_lease.pool.key if self._last_lease is not None else "")
        self._abort_attempt()
        self._settle(Outcome.CLIENT_GONE, CLIENT_GONE_STATUS, reason="client_gone")

    def interrupt(self, reason: Refusal) -> None:
        """End the request now with an error, through no fault of its replica."""
        if self._settled:
            return
        self._abort_attempt()
        if self._response.begun:
            self.cut(Outcome.CLIENT_GONE, reason)
        else:
            self._refuse(reason)

    @property
    def held_bytes(self) -> int:
        """Bytes of the body, which is kept as long as another replica may have to be asked, and of an edited copy of it."""
        copy = self._attempt.body if self._attempt is not None else b""
        return len(self._body) + (0 if copy is self._body else len(copy))

    def forget_body(self) -> int:
        """Give up on further attempts, if one runs, for the sake of memory. Returns the bytes that this frees."""
        attempt, held = self._attempt, self.held_bytes
        if attempt is None or not attempt.forget_request():
            return 0
        self._body = b""
        return held

    @contained
    def check_silence(self, now: float) -> None:
        """Give up on an engine that is silent for too long; one that we do not read from is not silent."""
        if self._client.write_paused:
            return
        if now >= self._comment_at:
            self._keep_alive(now)
        if self._attempt is not None:
            self._attempt.check_silence(now)

    def _keep_alive(self, now: float) -> None:
        """The client has heard nothing for as long as its class wants to be silent."""
        chosen = self._plan.chosen
        self._comment_at = inf if chosen.times.keep_alive is None or self._settled else now + chosen.times.keep_alive
        if not self._settled:
            self._response.keep_alive(self._own_lines(None) + b"x-workslice-class: %b\r\n" % chosen.name.encode())

    def pause_engine(self) -> None:
        """The client reads too slowly."""
        if self._attempt is not None:
            self._attempt.pause()

    def resume_engine(self) -> None:
        """The client has caught up."""
        if self._attempt is not None:
            self._attempt.resume(self._data_path.loop.time())

    def fail_internally(self) -> None:
        """The router itself has failed on this request; called where the exception is handled."""
        log.exception("request %s failed in the router itself", self._request_id.decode("ascii", "replace"))
        cause = refusal(Reason.INTERNAL_ERROR)
        if self._settled or self._response.begun:
            self._abort_attempt()
            self._settle(Outcome.CLIENT_GONE, cause.status, reason=cause.reason.value)
            self._client.abort()  # a part of the answer may be out: it must not look complete
        else:
            self.interrupt(cause)

    def _abort_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.abort()

    def _settle(self, outcome: Outcome, status: int, **failure: str) -> None:
        """The one way out: gives back the place in the queue or on the replica, counts and logs. Only the first call does."""
        if self._settled:
            return
        self._settled = True
        self._body = b""
        self._attempt = None  # it knows us: without the cycle both go at once, not with the next garbage collection
        data_path, request, last = self._data_path, self._request, self._last_lease
        data_path.exchanges.discard(self)
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            ticket.cancel()
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.settle(outcome)
        seconds = data_path.loop.time() - request.received_at
        pool, class_name = (last.pool.spec.key, last.class_name) if last is not None else ("", "")
        data_path.metrics.request_finished(self._path, pool, class_name, status, seconds)
        data_path.metrics.caller(request.caller, status)
        if failure or log_everything():
            if self._degraded:
                failure["degraded"] = self._degraded.decode()
            log_end(request, self._request_id, status, seconds, last, self._retries, failure)
