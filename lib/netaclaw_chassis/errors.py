"""Domain errors, and their one translation to gRPC status with details and back.

NetaclawError
 └─ InvalidRequest   (REASON_INVALID_FIELD with field violations)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from netaclaw.error.v1.reason_pb2 import Reason

DOMAIN = "netaclaw"
STATUS_DETAILS_KEY = "grpc-status-details-bin"

_PREFIX = "REASON_"
_MAX_MESSAGE_BYTES = 1000
_MAX_DETAILS_BYTES = 2500
_MAX_TEXT_BYTES = 300
"""An error stays below 8 KiB on the wire, words coded threefold: beyond that peers drop the whole status, and with it
what was wrong."""
_REASON_NAMES = frozenset(Reason.keys())

_INVALID = grpc.StatusCode.INVALID_ARGUMENT
_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
_NOT_FOUND = grpc.StatusCode.NOT_FOUND
_ABORTED = grpc.StatusCode.ABORTED
_UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED

CODES: Mapping[int, grpc.StatusCode] = {
    Reason.REASON_INVALID_FIELD: _INVALID,
    Reason.REASON_SESSION_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_AGENT_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_ENTRY_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_TASK_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_CONTENT_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_WORKSPACE_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_NOT_FOUND: _NOT_FOUND,
    Reason.REASON_TURN_RUNNING: _PRECONDITION,
    Reason.REASON_NO_TURN_RUNNING: _PRECONDITION,
    Reason.REASON_REQUEST_ID_REUSED: _INVALID,
    Reason.REASON_STALE_GENERATION: _ABORTED,
    Reason.REASON_APPEND_OUT_OF_ORDER: _ABORTED,
    Reason.REASON_STALE_ETAG: _ABORTED,
    Reason.REASON_OWNED_ELSEWHERE: _ABORTED,
    Reason.REASON_SEQ_OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    Reason.REASON_SLOW_READER: _ABORTED,
    Reason.REASON_LIMIT_REACHED: _EXHAUSTED,
    Reason.REASON_MESSAGE_TOO_LARGE: _EXHAUSTED,
    Reason.REASON_MODEL_UNKNOWN: _PRECONDITION,
    Reason.REASON_MODEL_UNAVAILABLE: _UNAVAILABLE,
    Reason.REASON_MODEL_REFUSED: _PRECONDITION,
    Reason.REASON_CONTEXT_TOO_LONG: _PRECONDITION,
    Reason.REASON_NOT_COMPACTED: _PRECONDITION,
    Reason.REASON_DATABASE_UNAVAILABLE: _UNAVAILABLE,
    Reason.REASON_SERVICE_UNAVAILABLE: _UNAVAILABLE,
    Reason.REASON_METHOD_NOT_PUBLIC: grpc.StatusCode.UNIMPLEMENTED,
    Reason.REASON_UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.REASON_PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.REASON_CLARIFY_CLOSED: _PRECONDITION,
    Reason.REASON_TASK_ENDED: _PRECONDITION,
    Reason.REASON_SANDBOX_UNAVAILABLE: _PRECONDITION,
    Reason.REASON_AGENT_NOT_ALLOWED: _PRECONDITION,
    Reason.REASON_ALREADY_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.REASON_SHUTTING_DOWN: _UNAVAILABLE,
    Reason.REASON_INTERNAL: grpc.StatusCode.INTERNAL,
}
"""The status that carries each reason; the comments of reason.proto are its documentation."""


class NetaclawError(Exception):
    """An error with a reason that clients can act on. The message is shown to them: no secret, no prompt."""

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[tuple[str, str]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        """(field path, what is wrong) pairs."""
        self.retry_after = retry_after
        """Seconds after which a new try makes sense, where waiting helps."""

    @property
    def code(self) -> grpc.StatusCode:
        """The status that carries the reason."""
        return CODES.get(self.reason, grpc.StatusCode.INTERNAL)

    @property
    def reason_name(self) -> str:
        """The reason as ErrorInfo spells it."""
        return Reason.Name(self.reason).removeprefix(_PREFIX)

    def details(self) -> bytes:
        """A serialised google.rpc.Status with ErrorInfo, RetryInfo and BadRequest, as far as they apply.

        Of many violations the first ones that fit.
        """
        status = status_pb2.Status(code=self.code.value[0], message=_cut(str(self), _MAX_MESSAGE_BYTES))
        metadata = {key: _cut(value, _MAX_TEXT_BYTES) for key, value in self.metadata.items()}
        _pack(status, error_details_pb2.ErrorInfo(reason=self.reason_name, domain=DOMAIN, metadata=metadata))
        if self.retry_after is not None:
            delay = Duration()
            delay.FromMilliseconds(int(self.retry_after * 1000))
            _pack(status, error_details_pb2.RetryInfo(retry_delay=delay))
        if self.violations:
            _pack(status, self._bad_request(_MAX_DETAILS_BYTES - status.ByteSize()))
        return bytes(status.SerializeToString())

    def _bad_request(self, room: int) -> error_details_pb2.BadRequest:
        bad = error_details_pb2.BadRequest()
        for field, description in self.violations:
            bad.field_violations.add(field=_cut(field, _MAX_TEXT_BYTES), description=_cut(description, _MAX_TEXT_BYTES))
            if bad.ByteSize() > room and len(bad.field_violations) > 1:
                del bad.field_violations[-1]
                break
        return bad


class InvalidRequest(NetaclawError):
    """One or more fields of a request are wrong."""

    def __init__(self, violations: Sequence[tuple[str, str]]) -> None:
        text = "; ".join(f"{field}: {description}" for field, description in violations)
        super().__init__(Reason.REASON_INVALID_FIELD, text, violations=violations)


class Violations:
    """Collects what is wrong with a request, so that one answer names everything."""

    def __init__(self) -> None:
        self._found: list[tuple[str, str]] = []

    def add(self, field: str, description: str) -> None:
        self._found.append((field, description))

    def check(self, ok: bool, field: str, description: str) -> None:
        """Note the field unless ok."""
        if not ok:
            self.add(field, description)

    def raise_if_any(self) -> None:
        if self._found:
            raise InvalidRequest(self._found)


async def abort(context: grpc.aio.ServicerContext[object, object], error: NetaclawError) -> NoReturn:
    """End the call with the error's status and details."""
    metadata = ((STATUS_DETAILS_KEY, error.details()),)
    await context.abort(error.code, printable(str(error)), metadata)
    raise AssertionError("abort raises")


def from_rpc(error: grpc.aio.AioRpcError) -> NetaclawError:
    """The domain error behind a failed call to another service.

    A status without our ErrorInfo becomes SERVICE_UNAVAILABLE for UNAVAILABLE, CANCELLED and DEADLINE_EXCEEDED, and
    INTERNAL otherwise.
    """
    status = _status_of(error)
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    if status is not None:
        for detail in status.details:
            for message in (info, bad, retry):
                if detail.Is(message.DESCRIPTOR):
                    detail.Unpack(message)
    if info.domain != DOMAIN or _PREFIX + info.reason not in _REASON_NAMES:
        return _foreign(error)
    assert status is not None
    return NetaclawError(
        cast("Reason", Reason.Value(_PREFIX + info.reason)),
        status.message,
        metadata=info.metadata,
        violations=[(v.field, v.description) for v in bad.field_violations],
        retry_after=retry.retry_delay.ToMilliseconds() / 1000 if retry.HasField("retry_delay") else None,
    )


def _foreign(error: grpc.aio.AioRpcError) -> NetaclawError:
    gone = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)
    if error.code() in gone:
        return NetaclawError(Reason.REASON_SERVICE_UNAVAILABLE, "a service that the call needs cannot be reached")
    return NetaclawError(Reason.REASON_INTERNAL, f"{error.code().name}: {error.details() or 'no details'}")


def _status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY and isinstance(value, bytes):
            try:
                return status_pb2.Status.FromString(value)
            except DecodeError:
                return None
    return None


def _pack(status: status_pb2.Status, message: object) -> None:
    detail = AnyMessage()
    detail.Pack(message)  # type: ignore[arg-type]  # google.rpc ships no types
    status.details.append(detail)


def printable(text: str) -> str:
    """Status words on one line: a newline would end them on some paths."""
    cut = _cut(text, _MAX_MESSAGE_BYTES)
    return cut if cut.isprintable() else _cut(json.dumps(cut, ensure_ascii=False)[1:-1], _MAX_MESSAGE_BYTES)


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes of UTF-8, between characters."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[: limit - 3].decode(errors="ignore") + "…"
