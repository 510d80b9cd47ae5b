"""One way into a turn, whichever RPC asks: begin it, then follow its events to `done` or `error`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest, ExecuteChatRequest, ExecuteChatResponse, WhenBusy
from netaclaw.chat.v1.event_pb2 import ChatEvent, ReceiptState, TurnOutcome
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.store.v1.journal_service_pb2 import BeginTurnOutcome, BeginTurnRequest, BeginTurnResponse
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.beginning import Beginning, begin_request
from netaclaw_orchestrator.large_content import Contents
from netaclaw_orchestrator.prelude import EarlyCall
from netaclaw_orchestrator.publisher import Subscription
from netaclaw_orchestrator.sessions import Sessions
from netaclaw_orchestrator.turn import Turn
from netaclaw_orchestrator.validation import check_chat
from netaclaw_orchestrator.waiting import Waiting
from netaclaw_orchestrator.watch import Watcher, heartbeat

MAX_FINAL_BYTES = 512 * 1024


class ChatTurns:
    """Starts turns and follows them."""

    def __init__(
        self,
        instance_id: str,
        sessions: Sessions,
        watcher: Watcher,
        contents: Contents,
    ) -> None:
        self._instance_id = instance_id
        self._sessions = sessions
        self._watcher = watcher
        self._contents = contents

    async def execute_chat(
        self,
        request: ChatRequest | ExecuteChatRequest,
        owner_id: str,
        beginning: Beginning,
        meanwhile: Callable[[], Awaitable[None]],
    ) -> AsyncIterator[list[ChatEvent]]:
        """Batches of the turn's events, the last one ending with `done` or `error`.

        `beginning` is over before the first batch, unless the turn cannot begin. `meanwhile` is done while the store
        begins the turn, and is over before the first batch, which comes after the commit that begins the turn. Closing
        the iterator cancels nothing. Raises NetaclawError before the first batch when the turn cannot begin, and
        SLOW_READER later.
        """
        check_chat(request)
        begin = begin_request(
            new_id,
            instance_id=self._instance_id,
            owner_id=owner_id,
            session_id=request.session_id or new_id(),
            create_session=not request.session_id,
            content=request.content,
            agent_id=request.agent_id,
            agent_name=request.agent_name,
            leaf_entry_id=request.leaf_entry_id,
            from_root=request.from_root,
            request_id=request.request_id,
            when_busy=request.when_busy or WhenBusy.WHEN_BUSY_REJECT,
        )
        beginning.becomes(begin.session_id, begin.turn_id)
        await self._sessions.trees.quiet(request.session_id)
        if request.session_id and not (request.leaf_entry_id or request.from_root):
            begin.known_entry_id = self._sessions.known_entry_id(request.session_id, owner_id)
        if not request.request_id and begin.when_busy != WhenBusy.WHEN_BUSY_REJECT:
            begin.request_id = new_id()  # receipts name the message
        begun, early = await self._begun(owner_id, begin, beginning, meanwhile)
        session_id = begun.session.session_id
        if begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_QUEUED:
            waiting = Waiting(begin.request_id, begin.when_busy, begin.content)
            await self._sessions.enqueue(owner_id, begun, waiting, beginning)
            events = self._queued(owner_id, session_id, begin.request_id, begun.turn_start_seq)
        elif begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_RETRACTED:
            beginning.over()
            events = self._queued(owner_id, session_id, begin.request_id, begun.turn_start_seq)
        elif begun.outcome == BeginTurnOutcome.BEGIN_TURN_OUTCOME_JOINED:
            beginning.over()
            events = self._joined(owner_id, session_id, begun.turn_id, begun.turn_start_seq)
        else:
            turn, subscription = await self._sessions.begin(owner_id, begun, begin, beginning, early)
            events = self._started(owner_id, session_id, turn, subscription)
        async for batch in events:
            yield batch

    async def _begun(
        self,
        owner_id: str,
        begin: BeginTurnRequest,
        beginning: Beginning,
        meanwhile: Callable[[], Awaitable[None]],
    ) -> tuple[BeginTurnResponse, EarlyCall | None]:
        """The store's answer, and the model call that was made meanwhile; dropped when no turn begins."""
        asked = self._sessions.ask_to_begin(begin)
        early = answer = None
        try:
            await asyncio.sleep(0)  # the request leaves in this step, before the model's is made: it takes the longest
            early = self._sessions.call_early(owner_id, begin)
            await meanwhile()
            answer = await asyncio.shield(asked)
            return answer, early
        finally:
            if answer is None and not (asked.done() and asked.exception()):  # the client has gone, its turn begins
                self._sessions.begin_alone(owner_id, begin, asked, beginning)
            if early is not None and (answer is None or answer.outcome != BeginTurnOutcome.BEGIN_TURN_OUTCOME_STARTED):
                await early.drop()

    async def _started(
        self, owner_id: str, session_id: str, turn: Turn, subscription: Subscription
    ) -> AsyncIterator[list[ChatEvent]]:
        publisher = self._sessions.publisher(session_id, owner_id)
        try:
            await asyncio.sleep(0)  # the turn takes its first step: text of an early call travels with the first events
            async for batch in subscription.batches(self._watcher.heartbeat_s):
                yield batch or [heartbeat(session_id, publisher.seq)]
                if ends_turn(batch, turn.turn_id):
                    return
        finally:
            self._sessions.unsubscribe(session_id, subscription)
        raise NetaclawError(Reason.REASON_SHUTTING_DOWN, "the stream was closed here; watch again from the last seq")

    async def answer(
        self,
        request: ExecuteChatRequest,
        owner_id: str,
        beginning: Beginning,
        meanwhile: Callable[[], Awaitable[None]],
    ) -> ExecuteChatResponse:
        """The turn without a stream: what its events add up to. `beginning` and `meanwhile` as there."""
        response = ExecuteChatResponse(session_id=request.session_id, outcome=TurnOutcome.TURN_OUTCOME_CANCELLED)
        entries: dict[str, Entry] = {}
        async for batch in self.execute_chat(request, owner_id, beginning, meanwhile):
            for event in batch:
                fold(response, entries, event)
        last = entries.get(response.assistant_entry_id)
        if last is not None:
            whole = Entry()
            whole.CopyFrom(last)  # the event is others' as well
            await self._contents.fill(owner_id, response.session_id, [whole])
            response.final_content = _cut(_text(whole))
        return response

    async def _queued(
        self, owner_id: str, session_id: str, request_id: str, after_seq: int
    ) -> AsyncIterator[list[ChatEvent]]:
        """Receipts of a waiting message; once it is taken, the events of the turn that it entered or began. One that
        was taken back has receipts alone."""
        turn_id = ""

        def choose(batch: list[ChatEvent]) -> list[ChatEvent]:
            nonlocal turn_id
            mine: list[ChatEvent] = []
            for event in batch:
                if event.message_receipt.request_id == request_id:
                    mine.append(event)
                    if event.message_receipt.state == ReceiptState.RECEIPT_STATE_TAKEN:
                        turn_id = event.turn_id
                elif turn_id and event.turn_id == turn_id:
                    mine.append(event)
            return mine

        async with aclosing(self._chosen(owner_id, session_id, after_seq, choose)) as batches:
            async for mine in batches:
                yield mine
                retracted = any(e.message_receipt.state == ReceiptState.RECEIPT_STATE_RETRACTED for e in mine)
                if retracted or (turn_id and ends_turn(mine, turn_id)):
                    return

    async def _joined(
        self, owner_id: str, session_id: str, turn_id: str, after_seq: int
    ) -> AsyncIterator[list[ChatEvent]]:
        def choose(batch: list[ChatEvent]) -> list[ChatEvent]:
            return [event for event in batch if event.turn_id == turn_id]

        async with aclosing(self._chosen(owner_id, session_id, after_seq, choose)) as batches:
            async for mine in batches:
                yield mine
                if ends_turn(mine, turn_id):
                    return

    async def _chosen(
        self, owner_id: str, session_id: str, after_seq: int, choose: Callable[[list[ChatEvent]], list[ChatEvent]]
    ) -> AsyncGenerator[list[ChatEvent], None]:
        """What is chosen of each batch of a session; a heartbeat when there was nothing for a while, also while what is
        left out goes on: then it comes after two periods at the latest."""
        clock = asyncio.get_running_loop()
        passed, said = 0, clock.time()
        async with aclosing(self._watcher.follow(owner_id, session_id, after_seq)) as batches:
            async for batch in batches:
                mine = choose(batch)
                if not mine and clock.time() >= said + self._watcher.heartbeat_s:
                    mine = [heartbeat(session_id, passed)]  # of this stream: it does not hold all of the session's
                if mine:
                    passed, said = max(passed, *(event.seq for event in mine)), clock.time()
                    yield mine


def ends_turn(batch: list[ChatEvent], turn_id: str) -> bool:
    """Whether the batch holds the turn's last event."""
    return any(event.turn_id == turn_id and event.WhichOneof("event") in ("done", "error") for event in batch)


_FOLDED = frozenset(
    {
        *("session_entry_added", "session_entry_updated", "subagent_run_completed"),
        *("done", "error", "tool_call_completed"),
    }
)


def fold(response: ExecuteChatResponse, entries: dict[str, Entry], event: ChatEvent) -> None:
    """Add one event of the turn to the answer."""
    kind = event.WhichOneof("event")
    if kind not in _FOLDED:
        return
    response.session_id = event.session_id
    response.turn_id = event.turn_id or response.turn_id
    if kind in ("session_entry_added", "session_entry_updated"):
        entry = getattr(event, kind).entry
        entries[entry.entry_id] = entry
    elif kind == "subagent_run_completed":
        response.subagent_batches.append(event.subagent_run_completed.batch)
    elif kind == "done":
        response.outcome = event.done.outcome
        response.usage.CopyFrom(event.done.usage)
        response.tool_call_count = event.done.tool_call_count
        response.assistant_entry_id = event.done.assistant_entry_id
    elif kind == "error":
        response.outcome = TurnOutcome.TURN_OUTCOME_FAILED
        response.error.CopyFrom(event.error)
        response.usage.CopyFrom(event.error.usage)
        response.assistant_entry_id = event.error.assistant_entry_id
    elif kind == "tool_call_completed":
        response.tool_call_count += 1


def _text(entry: Entry) -> str:
    return "".join(part.text.text for part in entry.assistant.parts if part.WhichOneof("part") == "text")


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= MAX_FINAL_BYTES else raw[:MAX_FINAL_BYTES].decode(errors="ignore")
