"""Texts that are too long for their entry."""

from __future__ import annotations

from netaclaw.session.v1.session_service_pb2 import ReadContentRequest
from netaclaw_client.client import Client

_PIECE_BYTES = 512 * 1024


async def read_content(client: Client, session_id: str, content_id: str) -> str:
    """The whole text behind a `content_id` of a text, thinking or result, read in pieces.

    The part itself shows the text's first bytes, and its size in `size_bytes`. Raises AioRpcError: NOT_FOUND once the
    entry is deleted.
    """
    data = b""
    while True:
        request = ReadContentRequest(
            session_id=session_id, content_id=content_id, offset=len(data), limit_bytes=_PIECE_BYTES
        )
        chunk = (await client.sessions.ReadContent(request)).chunk
        data += chunk.data
        if len(data) >= chunk.size_bytes or not chunk.data:
            return data.decode()
