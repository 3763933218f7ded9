"""One attempt at one replica: connects, sends the request, and relays the response as soon as it is sure to be an answer."""

import logging
from typing import Final, Protocol

from workslice_router.admission import Lease
from workslice_router.client_response import ClientResponse
from workslice_router.data_path import DataPath
from workslice_router.ejection import Outcome
from workslice_router.engine_connection import EngineConnection, open_connection
from workslice_router.engine_failure import ABORTED, EngineError, Failure, connect_failure, error_of_event
from workslice_router.event_stream import EventStream
from workslice_router.forwarded_headers import NO_BODY, engine_request_head
from workslice_router.openai_errors import Reason, Refusal, refusal
from workslice_router.response_head import ResponseHead
from workslice_router.usage import ended_by_abort, ended_by_length
from workslice_router.whole_answer import MOST_HELD, is_whole, may_end

_LARGEST_ERROR: Final = 64 * 1024
_TAIL: Final = 4096
_IN_THE_MIDDLE: Final = "its answer ends in the middle"
_STALE_SECONDS: Final = 1.0
"""A kept connection that breaks within this time after a request was sent had been closed before; later the engine died of something,
perhaps of the request."""
_FIRST_ERROR_STATUS: Final = 400

log = logging.getLogger("workslice_router.data_path")


class Owner(Protocol):
    """Whose attempt it is; exactly one of failed, cut and complete is called, once, unless the attempt is aborted before."""

    def begun(self) -> None:
        """The client gets the first piece now: there will be no further attempt."""

    def failed(self, failure: Failure) -> None:
        """It failed, and the client has seen nothing."""

    def cut(self, outcome: Outcome, reason: Refusal | None) -> None:
        """It failed after the client had seen a part; None when the engine's own error event was the last thing relayed."""

    def complete(self, status: int, usage_text: bytes, ended_by_length: bool, events: int) -> None:
        """The answer is whole and relayed, but for its end; `usage_text` is where its usage is if it has one, and `events` is about
        how many a stream had.
        """


class Attempt:
    """Reads the response of one engine for one request."""

    __slots__ = (
        "_data_path",
        "_engine",
        "_error_body",
        "_head",
        "_held",
        "_is_json",
        "_lease",
        "_length",
        "_missing",
        "_over",
        "_own_lines",
        "_owner",
        "_received_at",
        "_request",
        "_response",
        "_reused",
        "_sent_at",
        "_silent_since",
        "_stream",
        "_tail",
        "_unsent",
    )

    def __init__(
        self,
        data_path: DataPath,
        owner: Owner,
        lease: Lease,
        response: ClientResponse,
        own_lines: bytes,
        received_at: float,
    ) -> None:
        self._data_path = data_path
        self._owner = owner
        self._lease = lease
        self._response = response
        self._own_lines = own_lines
        self._received_at = received_at
        self._request = (b"", b"")
        self._engine: EngineConnection | None = None
        self._reused = False
        self._over = False
        self._head: ResponseHead | None = None
        self._length: int | None = None
        self._missing = -1  # bytes that are to come by the response's length; below 0: unknown
        self._is_json = False
        self._held: bytearray | None = None  # what has come of a response without a length
        self._stream: EventStream | None = None
        self._error_body: bytes | None = None
        self._unsent = b""
        self._tail = b""
        self._silent_since = self._sent_at = 0.0

    # --- sending ----------------------------------------------------------------------------------------------------------

    def start(self, path: str, lines: bytes, request_id: bytes, body: bytes) -> None:
        """Send the request, with these header lines, to the lease's replica, over an open connection if there is one."""
        replica = self._lease.replica.spec
        head = engine_request_head(path, replica.host, replica.port, lines, request_id, len(body))
        self._request = (head, body)
        self._connect(fresh=False)

    def _connect(self, *, fresh: bool) -> None:
        address = (self._lease.replica.host, self._lease.replica.port)
        connection = None if fresh else self._data_path.idle.take(address)
        self._reused = connection is not None
        if connection is not None:
            self._send(connection)
        else:
            self._data_path.start_task(self._open(address))

    async def _open(self, address: tuple[str, int]) -> None:
        try:
            connection = await open_connection(address, self._data_path.idle, self._data_path.settings.connect_timeout)
        except (OSError, UnicodeError) as error:  # the latter from names that DNS cannot have
            if not self._over:
                self._fail(connect_failure(error))
            return
        if self._over:  # the client has gone meanwhile; another request may use the connection
            self._data_path.idle.put(connection)
        elif connection.usable:
            self._send(connection)
        else:
            self._fail(Failure(Outcome.RESET, "the engine closed the connection at once"))

    def _send(self, connection: EngineConnection) -> None:
        self._engine = connection
        self._silent_since = self._sent_at = self._data_path.loop.time()
        connection.request(self, *self._request)

    # --- the engine's response --------------------------------------------------------------------------------------------

    def response_started(self, head: ResponseHead) -> None:
        """Keep the head: vLLM sends 200 before it has even queued the request, so a head promises nothing."""
        self._silent_since = self._data_path.loop.time()
        self._head = head
        if head.status >= _FIRST_ERROR_STATUS:
            self._error_body = b""
        elif head.is_event_stream:
            self._stream = EventStream()
            return
        elif head.status not in NO_BODY:
            self._is_json = head.is_json
            self._missing = -1 if head.length is None else head.length
            if self._is_json and head.length is None and not head.chunked:
                self._held = bytearray()
        self._length = head.length

    def response_body(self, data: bytes) -> None:
        """Relay a piece, or keep it while it is open whether the client shall see it."""
        self._silent_since = self._data_path.loop.time()
        if self._stream is not None:
            self._relay_events(self._stream, self._stream.feed(data))
        elif self._error_body is not None:
            self._error_body += data
            if (
                len(self._error_body) > _LARGEST_ERROR
            ):  # no error object is as large; whatever it is, it is the client's
                first, self._error_body = self._error_body, None
                self._relay(first)
        elif self._held is not None:
            self._held += data
            if len(self._held) > MOST_HELD:
                self._lost("its answer is large and has no length")
        else:
            self._relay_piece(data)

    def _relay_piece(self, data: bytes) -> None:
        """A piece of an answer that is no stream."""
        if not self._response.begun and ended_by_abort(data):
            self._fail(Failure(Outcome.ABORTED, ABORTED))
            return
        self._tail = data[-_TAIL:] if len(data) >= _TAIL else (self._tail + data)[-_TAIL:]
        self._missing -= len(data)
        if self._missing == 0 and self._is_json and not may_end(self._tail):
            self._lost(_IN_THE_MIDDLE)
        else:
            self._relay(data)

    def response_complete(self) -> None:
        """The engine has sent all of its response, and the connection is free again."""
        self._engine = None
        stream = self._stream
        if stream is not None:
            self._relay_events(stream, stream.finish())
            if not self._over and not stream.done:
                self._lost("the stream ended without [DONE]")
                return
        if self._over:
            return
        if self._error_body is not None:
            assert self._head is not None
            error = EngineError(self._head.status, self._head.headers, self._error_body)
            self._fail(Failure(error.outcome, "", error))
        elif self._held is not None:
            self._complete_held(bytes(self._held))
        elif self._is_json and not may_end(self._tail):
            self._lost(_IN_THE_MIDDLE)
        else:
            self._complete()

    def _complete_held(self, body: bytes) -> None:
        """An answer without a length ends with its connection, like one that is cut."""
        if not is_whole(body):
            self._lost(_IN_THE_MIDDLE)
            return
        self._length = len(body)
        self._relay_piece(body)
        if not self._over:
            self._complete()

    def response_lost(self, detail: str) -> None:
        """The engine's connection broke."""
        engine, self._engine = self._engine, None
        soon = self._data_path.loop.time() - self._silent_since < _STALE_SECONDS
        if self._reused and soon and engine is not None and not engine.response_begun and self.body:
            # The engine closed an idle connection at the moment when we used it: nothing has failed.
            self._connect(fresh=True)
        elif self._stream is not None and self._stream.done:
            self._complete()
        else:
            self._lost(detail)

    def _relay_events(self, stream: EventStream, events: bytes) -> None:
        if stream.aborted or (stream.done and ended_by_abort(stream.last_events)):
            self._aborted(events)
            return
        if not self._response.begun:
            self._unsent += events
            if stream.error is not None and not stream.started:
                error = error_of_event(stream.error)
                self._fail(Failure(error.outcome, "", error))
                return
            if not (stream.started or stream.done):
                self._unsent = self._unsent[-_LARGEST_ERROR:]
                return
            events, self._unsent = self._unsent, b""
            now = self._data_path.loop.time()
            self._data_path.metrics.first_token(self._lease.pool.key, self._lease.class_name, now - self._received_at)
            self._lease.answered()
        self._relay(events)
        if stream.error is not None:
            died = error_of_event(stream.error).outcome is Outcome.CORE_DIED
            self._cut(Outcome.CORE_DIED if died else Outcome.ENGINE_ERROR, None)

    def _aborted(self, last: bytes) -> None:
        """The engine gave the request up, and calls that an end: pass on what is before it, if anything was passed on before."""
        if not self._response.begun:
            self._fail(Failure(Outcome.ABORTED, ABORTED))
            return
        self._relay(last[: last.rfind(b"data:")])
        self._cut(Outcome.ABORTED, refusal(Reason.STREAM_INTERRUPTED, detail=ABORTED))

    def _relay(self, data: bytes) -> None:
        if self._response.begun:
            self._response.write(data)
            return
        if self._response.committed and self._stream is None:
            self._fail(Failure(Outcome.ENGINE_ERROR, "the engine answered a question for a stream with something else"))
            return
        self._request = (b"", b"")
        self._owner.begun()
        head = self._head
        assert head is not None
        lines = head.client_lines() + self._own_lines
        self._own_lines = b""
        self._response.begin(head.status, lines, self._length, data)

    # --- the end ----------------------------------------------------------------------------------------------------------

    def _lost(self, detail: str) -> None:
        if self._response.begun:
            self._cut(Outcome.RESET, refusal(Reason.STREAM_INTERRUPTED, detail=detail))
        else:
            self._fail(Failure(Outcome.RESET, detail))

    def _complete(self) -> None:
        if not self._response.begun:
            self._length = 0
            self._relay(b"")
        if self._over:
            return
        self._over = True
        stream = self._stream
        if stream is None:
            self._owner.complete(self.status, self._tail, ended_by_length(self._tail), 0)
        else:
            cut = ended_by_length(stream.last_events)
            self._owner.complete(self.status, stream.usage_event, cut, stream.events)

    def _fail(self, failure: Failure) -> None:
        self.abort()
        self._owner.failed(failure)

    def _cut(self, outcome: Outcome, reason: Refusal | None) -> None:
        self.abort()
        self._owner.cut(outcome, reason)

    def abort(self) -> None:
        """Nobody wants the answer any more: the engine sees it at once."""
        self._over = True
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.abort()

    @property
    def body(self) -> bytes:
        """The body as it goes to the engine, while it may have to be sent again."""
        return self._request[1]

    def forget_request(self) -> bool:
        """Free the request, if it is sent: should the connection have been closed just then, it is lost."""
        if self._engine is None:
            return False
        self._request = (b"", b"")
        return True

    @property
    def is_event_stream(self) -> bool:
        """The client gets, or would get, server-sent events."""
        return self._stream is not None

    @property
    def status(self) -> int:
        """Status of the engine's response; 0 before it."""
        return self._head.status if self._head is not None else 0

    def check_silence(self, now: float) -> None:
        """Give up when the engine has been silent for longer than the idle timeout, and long before when its machine is gone. Let it be
        asked whether it hangs.
        """
        engine, silent = self._engine, now - self._silent_since
        if engine is None:
            return
        hung = self._data_path.hung
        if silent >= hung.silent_seconds:
            hung.suspect(self._lease.pool, self._lease.replica)
        # A lost node gets as long on an open connection as it gets to open one.
        patience = self._data_path.settings.connect_timeout
        if silent >= patience and engine.lose_if_unacknowledged(patience):
            return
        outcome, timeout = self._overdue(silent, now)
        if outcome is None:
            return
        if self._stream is not None and self._stream.done:
            self._engine = None
            engine.abort()
            self._complete()
        elif self._response.begun:
            self._cut(outcome, refusal(Reason.ENGINE_TIMEOUT, seconds=timeout))
        else:
            self._fail(Failure(outcome, seconds=timeout))

    def _overdue(self, silent: float, now: float) -> tuple[Outcome | None, float]:
        """How an engine counts that has taken too long, and how long it was allowed to."""
        times, longest = self._lease.plan.chosen.times, self._data_path.settings.idle_timeout
        allowed = times.idle if self._response.begun else times.first_byte
        if allowed is None:
            return (Outcome.TIMEOUT if silent >= longest else None), longest
        taken = silent if self._response.begun else now - self._sent_at
        if taken < allowed:
            return None, allowed
        return (Outcome.TIMEOUT if silent >= longest else Outcome.TOO_SLOW), allowed

    def pause(self) -> None:
        """The client reads too slowly: stop reading from the engine."""
        if self._engine is not None:
            self._engine.pause_reading()

    def resume(self, now: float) -> None:
        """Read on; a silence that was ours does not count."""
        self._silent_since = now
        if self._engine is not None:
            self._engine.resume_reading()
