"""One session of the machine: what it should look like, and who looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import grpc
import pytest

from netaclaw.chat.v1.chat_service_pb2 import CancelTurnRequest, ChatRequest, RetractMessageRequest, WhenBusy
from netaclaw.chat.v1.event_pb2 import ReceiptState, TurnOutcome
from netaclaw.session.v1 import session_command_service_pb2 as commands
from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw_client import SessionView, equal, run_turn
from tests.model_based.world import HELD, Wanderer, World
from tests.scenarios.followers import Follower
from tests.scenarios.reading import chat, until

WANDERERS = 2
ROOT = "root"
"""In place of a node: before every first message."""
_OVER = {ReceiptState.RECEIPT_STATE_TAKEN, ReceiptState.RECEIPT_STATE_RETRACTED, ReceiptState.RECEIPT_STATE_MISSED}


class ModelSession:
    """The tree as it should be, kept beside the real one."""

    def __init__(self, world: World, session_id: str) -> None:
        self._world = world
        self.session_id = session_id
        self.parents: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.leaf = ""
        self.title = ""
        self.held = ""
        """The message whose answer is held; empty when no turn runs."""
        self.waiting: dict[str, WhenBusy] = {}
        self._root_waits = False
        """Whether a waiting message begins at the root."""
        self._base = 0
        """Events up to here are copies of a source's: their turns have no ends."""
        self.observer = Follower(world.direct, session_id)
        self._observing = asyncio.create_task(self.observer.run())
        self.wanderers = [Wanderer(world.shaky, session_id) for _ in range(WANDERERS)]

    async def close(self) -> None:
        for each in self.wanderers:
            await each.leave()
        self._observing.cancel()
        await asyncio.wait([self._observing])

    def node(self, n: int) -> str:
        """One of the entries from which a path may lead on; empty when there is none."""
        nodes = [entry_id for entry_id, entry in self.observer.view.entries.items() if _on_paths(entry)]
        return nodes[n % len(nodes)] if nodes else ""

    # --- what a user does ---------------------------------------------------------------------------------------------

    async def send(self, content: str, node: str) -> None:
        """A message that is answered at once, or refused because a turn runs; behind the leaf where `node` is empty."""
        request = self._message(content, node)
        async with self._refused_when_held():
            async with aclosing(run_turn(self._world.shaky, request, self.observer.view.seq)) as events:
                last = [event async for event in events][-1]
            failed = content.startswith("fail")
            assert last.WhichOneof("event") == ("error" if failed else "done")
            assert failed or last.done.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
            await self._settle(after=self._parent(node))

    async def hold(self, content: str, node: str) -> None:
        """A message whose answer stays half written."""
        request = self._message(content, node)
        async with self._refused_when_held():
            async with aclosing(chat(self._world.direct, request)) as events:
                await until(events, "assistant_stream_delta")
            self.held = content
            await self._catch_up()
            self._learn(self._parent(node))

    async def interject(self, content: str, how: WhenBusy, node: str = "") -> None:
        """A message into a running turn, or behind it."""
        request = self._message(content, node, request_id=content, when_busy=how)
        self._root_waits |= node == ROOT
        async with aclosing(chat(self._world.direct, request)) as events:
            await until(events, "message_receipt")
        self.waiting[content] = how
        if how == WhenBusy.WHEN_BUSY_INTERRUPT:
            await self._settle()

    async def retract(self) -> None:
        """Take back the message that came last."""
        request_id, _ = self.waiting.popitem()
        await self._world.direct.chat.RetractMessage(
            RetractMessageRequest(session_id=self.session_id, request_id=request_id)
        )

    async def release(self) -> None:
        """Let the held answer end, and whatever waits behind it."""
        self._world.answers.gates[self.held].set()
        await self._settle()

    async def cancel(self) -> None:
        """Stop the running turn; what waits behind it is answered."""
        done = await self._world.direct.chat.CancelTurn(CancelTurnRequest(session_id=self.session_id))
        assert bool(done.turn_id) == bool(self.held)
        await self._settle()

    async def switch(self, node: str) -> None:
        async with self._refused_when_held():
            to_root = node == ROOT
            request = commands.SwitchLeafRequest(
                session_id=self.session_id, leaf_entry_id="" if to_root else node, to_root=to_root
            )
            await self._world.direct.commands.SwitchLeaf(request)
            self.leaf = request.leaf_entry_id

    async def delete(self, node: str) -> None:
        async with self._refused_when_held():
            request = commands.DeleteBranchRequest(session_id=self.session_id, entry_id=node)
            await self._world.direct.commands.DeleteBranch(request)
            doomed = self._below(node)
            if self.leaf in doomed:
                self.leaf = self.parents[node]
            for entry_id in doomed:
                del self.parents[entry_id]
                self.labels.pop(entry_id, None)

    async def label(self, node: str, label: str) -> None:
        mark = commands.EntryLabel(entry_id=node, label=label)
        session = Session(session_id=self.session_id, title=label)
        request = commands.UpdateSessionRequest(session=session, update_mask={"paths": ["title"]}, labels=[mark])
        await self._world.direct.commands.UpdateSession(request)
        self.labels[node] = self.title = label

    async def fork(self, node: str) -> str:
        """A copy; its id. It holds what the model says, in other words for the ids."""
        request = commands.ForkSessionRequest(session_id=self.session_id, entry_id=node)
        made = (await self._world.direct.commands.ForkSession(request)).session
        copied = await self._world.direct.load(made.session_id)
        source = self.observer.view.entries
        kept = self._path(node) if node else set(self.parents)
        expected = [
            entry
            for entry in source.values()
            if entry.entry_id in kept or (not _on_paths(entry) and entry.parent_entry_id in kept)
        ]
        assert [_gist(entry) for entry in copied.entries.values()] == [_gist(entry) for entry in expected]
        assert not copied.entries.keys() & source.keys()
        return made.session_id

    # --- what has to be true ------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Model, store, journal and every connected client agree."""
        await self._catch_up()
        stored = await self._world.direct.load(self.session_id)
        _same(self.observer.view, stored)
        assert {e.entry_id: e.parent_entry_id for e in stored.entries.values()} == self.parents
        assert stored.leaf_entry_id == self.leaf
        assert {e.entry_id: e.label for e in stored.entries.values() if e.label} == self.labels
        journal = await self._world.suite.events(self.session_id)
        assert [event.seq for event in journal] == list(range(1, stored.seq + 1))
        for each in self.wanderers:
            if each.connected:
                await self._check_client(each.follower, stored)

    async def _check_client(self, follower: Follower, stored: SessionView) -> None:
        await follower.until(lambda: follower.view.seq >= stored.seq)
        _same(follower.view, stored)
        if self.held:
            await follower.until(lambda: HELD in follower.written)
        else:
            assert not follower.written

    async def take_over(self) -> None:
        """Take the tree as it is: a fork's, which was compared with its source."""
        await self._catch_up()
        self._learn("", known=False)
        self._base = self.observer.view.seq

    async def view_for(self, how: str) -> SessionView | None:
        """What a client begins with; None: what it has."""
        if how == "reads the tree":
            return await self._world.direct.load(self.session_id)
        return SessionView(session_id=self.session_id) if how == "starts from nothing" else None

    async def _catch_up(self) -> None:
        stored = await self._world.direct.load(self.session_id)
        await self.observer.until(lambda: self.observer.view.seq >= stored.seq)

    def _message(self, content: str, node: str, **fields: object) -> ChatRequest:
        from_root = node == ROOT
        place = {"leaf_entry_id": "" if from_root else node, "from_root": from_root}
        return ChatRequest(session_id=self.session_id, content=content, **place, **fields)  # type: ignore[arg-type]  # by name

    def _parent(self, node: str) -> str:
        """What a message that is sent there hangs below; empty for a root."""
        return "" if node == ROOT else node or self.leaf

    async def _settle(self, after: str | None = None) -> None:
        """Wait until no turn runs and no message waits; then new entries are known."""
        await self.observer.until(self._settled)
        self.held = ""
        self.waiting.clear()
        await self._catch_up()
        self._learn(self.leaf if after is None else after)
        self._root_waits = False

    def _settled(self) -> bool:
        begun, ended, over = set[str](), set[str](), set[str]()
        for event in self.observer.durable[self._base :]:
            kind = event.WhichOneof("event")
            if event.session_entry_added.entry.HasField("user"):
                begun.add(event.turn_id)
            elif kind in ("done", "error"):
                ended.add(event.turn_id)
            elif kind == "message_receipt" and event.message_receipt.state in _OVER:
                over.add(event.message_receipt.request_id)
        return begun <= ended and self.waiting.keys() <= over

    def _learn(self, after: str, *, known: bool = True) -> None:
        """New entries hang below where the message was sent; nothing else has changed."""
        view = self.observer.view
        fresh = {key: entry for key, entry in view.entries.items() if key not in self.parents}
        places = {after, *fresh, *([""] if self._root_waits else [])}
        for entry in fresh.values():
            assert not known or entry.parent_entry_id in places, "a turn adds below its node only"
            self.parents[entry.entry_id] = entry.parent_entry_id
            if entry.label:
                self.labels[entry.entry_id] = entry.label
        assert not known or not fresh or view.leaf_entry_id in fresh
        self.leaf = view.leaf_entry_id

    def _below(self, node: str) -> set[str]:
        found = {node}
        for entry_id, parent in self.parents.items():  # parents come first
            if parent in found:
                found.add(entry_id)
        return found

    def _path(self, node: str) -> set[str]:
        found = set[str]()
        while node:
            found.add(node)
            node = self.parents[node]
        return found

    @asynccontextmanager
    async def _refused_when_held(self) -> AsyncIterator[None]:
        if not self.held:
            yield
            return
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            yield
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


def _same(view: SessionView, stored: SessionView) -> None:
    found = equal(view, stored)
    assert not found, "\n".join(found)


def _on_paths(entry: Entry) -> bool:
    return entry.HasField("user") or entry.HasField("assistant")


def _gist(entry: Entry) -> tuple[str | None, str, str, str]:
    words = "".join(part.text.text for part in entry.assistant.parts)
    return entry.WhichOneof("body"), entry.user.text, words, entry.label
