"""`netaclaw chat`: a conversation in the terminal, or one message."""

from __future__ import annotations

import argparse
import asyncio
import os

from netaclaw_cli import places
from netaclaw_cli.chat_session import ChatSession
from netaclaw_cli.conversation import Conversation
from netaclaw_cli.typed_lines import TypedLines
from netaclaw_client import Client


def run(arguments: argparse.Namespace) -> int:
    """Talk until the input ends, or send one message; 0 when the last turn completed."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    address = places.gateway_address(arguments.address, os.environ)
    async with Client(address) as client:
        lines = TypedLines()
        chat = ChatSession(client, arguments.agent or "", lines.write, lines.complain)
        await chat.open(arguments.session or "", arguments.workspace or "")
        conversation = Conversation(chat, lines)
        with conversation.interruptible():
            if arguments.message:
                return await conversation.one_message(" ".join(arguments.message))
            async with lines:
                return await conversation.run()
