"""The service behind: answers as a case's data says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc

from netaclaw_chassis.errors import STATUS_DETAILS_KEY

Value = str | dict[str, str]


def raw(value: Value) -> str | bytes:
    """A value of metadata: text, or bytes as {"hex": …}."""
    return value if isinstance(value, str) else bytes.fromhex(value["hex"])


class CaseService(grpc.GenericRpcHandler):
    """Serves every method whose last part is not "Nothing"; remembers what it was asked."""

    def __init__(self) -> None:
        self.case: dict[str, Any] = {}
        self.seen: list[dict[str, str | bytes]] = []
        self.remaining: float | None = None

    def play(self, case: dict[str, Any]) -> None:
        """Answer as the case says from now on."""
        self.case, self.seen, self.remaining = case, [], None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        if handler_call_details.method.endswith("/Nothing"):
            return None
        return grpc.unary_stream_rpc_method_handler(self._answer)

    async def _answer(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.seen.append(dict(context.invocation_metadata() or ()))
        self.remaining = context.time_remaining()
        case = self.case
        if "initial" in case:
            await context.send_initial_metadata(tuple((key, raw(value)) for key, value in case["initial"].items()))
        if case.get("silent"):
            await context.send_initial_metadata(())
            await asyncio.Event().wait()
        for message in [request] if case.get("echo") else [text.encode() for text in case.get("messages", ())]:
            yield message
        context.set_trailing_metadata(tuple((key, raw(value)) for key, value in case.get("trailing", {}).items()))
        error = case.get("error")
        if error:
            details = ((STATUS_DETAILS_KEY, bytes.fromhex(error["details"])),) if "details" in error else ()
            code = next(code for code in grpc.StatusCode if code.value[0] == error["code"])
            await context.abort(code, error["words"], details)
