"""Reading a stream that may die in silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import grpc

SILENT_S = 45.0
"""Three heartbeats: a stream that carries nothing for so long is dead, though its connection may not know it yet."""

_Response = TypeVar("_Response")


async def responses(call: grpc.aio.UnaryStreamCall[Any, _Response]) -> AsyncGenerator[_Response, None]:
    """A call's messages; the call is given back when the reader leaves.

    Raises AioRpcError as the call does, and UNAVAILABLE when nothing came for SILENT_S while the reader waited.
    """
    try:
        while True:
            try:
                async with asyncio.timeout(SILENT_S):
                    response = await call.read()
            except TimeoutError:
                raise cut(f"nothing came for {SILENT_S:g} s") from None
            if response is grpc.aio.EOF:
                return
            yield response  # type: ignore[misc]  # EOF's type is not told apart by its stub
    finally:
        call.cancel()


def cut(words: str) -> grpc.aio.AioRpcError:
    """What is raised for a stream that was cut without saying so."""
    none = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, none, none, words)
