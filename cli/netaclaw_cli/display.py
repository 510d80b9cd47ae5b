"""A turn as it happens on a terminal: cards that change in place, and the answer below them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.entry_pb2 import Entry, EntryKind, ToolCallPart
from netaclaw_cli.cards import card
from netaclaw_cli.printing import TurnPrinter
from netaclaw_cli.wording import call_state, clean, one_line, route
from netaclaw_client import SessionView

_TEXT_LINES = 12
_REFRESH_S = 0.1


class Display(Protocol):
    """Shows a turn; give it every event after the view has taken it."""

    def show(self, event: ChatEvent) -> None:
        """Show what the event changes."""


@asynccontextmanager
async def open_display(console: Console, view: SessionView) -> AsyncIterator[Display]:
    """A live display on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        yield TurnPrinter(view, lambda text: console.out(text, end="", highlight=False))
        return
    moving = _Moving(view)
    # Refreshed by a task of this loop, not by rich's thread: the view changes in this loop.
    with Live(moving, console=console, auto_refresh=False) as live:
        ticking = asyncio.create_task(_tick(live))
        try:
            yield moving
        finally:
            ticking.cancel()
            live.refresh()


async def _tick(live: Live) -> None:
    while True:
        live.refresh()
        await asyncio.sleep(_REFRESH_S)


class _Moving:
    """Rendered anew at each refresh, so that running times move without events."""

    def __init__(self, view: SessionView) -> None:
        self._view = view
        self._ended = False

    def show(self, event: ChatEvent) -> None:
        """The next refresh shows it. After the turn only the cards stay; the answer is its caller's to print."""
        self._ended = self._ended or event.WhichOneof("event") in ("done", "error")

    def __rich__(self) -> RenderableType:
        shown: list[RenderableType] = []
        for entry in self._view.entries.values():
            if entry.kind == EntryKind.ENTRY_KIND_ASSISTANT:
                shown += _calls(entry)
        shown += [card(entry) for entry in self._view.batches()]
        text = [] if self._ended else clean(self._text()).strip().splitlines()
        if len(text) > _TEXT_LINES:
            text = ["…", *text[-_TEXT_LINES:]]
        return Group(*shown, Text("\n".join(text)))

    def _text(self) -> str:
        """Of the newest assistant entry that has any."""
        for entry in reversed(list(self._view.entries.values())):
            if entry.kind == EntryKind.ENTRY_KIND_ASSISTANT and (text := self._view.text_of(entry.entry_id)):
                return text
        return ""


def _calls(entry: Entry) -> list[RenderableType]:
    return [Text(_call(part.tool_call), style="dim") for part in entry.assistant.parts if part.HasField("tool_call")]


def _call(call: ToolCallPart) -> str:
    return one_line(f"→ {call.tool_name} [{route(call)}] {call_state(call.state)} {call.arguments_json}", 120)
