"""What a person reads when something expected goes wrong: one line, no traceback."""

from __future__ import annotations

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw_chassis.errors import from_rpc


class CommandError(Exception):
    """The command cannot go on; the message is for the person at the terminal."""


def words_for(error: grpc.aio.AioRpcError, address: str) -> str:
    """A failed call in one line."""
    known = from_rpc(error)
    if known.reason == Reason.REASON_SERVICE_UNAVAILABLE and "service" not in known.metadata:
        return f"cannot reach a suite at {address}; start one with `netaclaw up`"
    if known.violations:
        return "; ".join(f"{field}: {what}" for field, what in known.violations)
    return f"{known} ({known.reason_name})"
