"""One turn of the main agent: the loop's port, seen from the journal and the live stream.

The order per model call: placeholder committed → stream start, deltas, end → entry updated → per tool call: started
(committed), run, completed (committed). The turn ends with exactly one `done` or `error` event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.chat.v1.event_pb2 import (
    ChatEvent,
    Done,
    Error,
    ReceiptState,
    TokenUpdate,
    ToolCallCompleted,
    ToolCallStarted,
    TurnOutcome,
)
from netaclaw.session.v1.entry_pb2 import (
    AssistantBody,
    BatchReferencePart,
    Entry,
    EntryKind,
    EntryState,
    Message,
    Part,
    Session,
    ToolCallPart,
    ToolCallState,
    ToolResult,
)
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1.journal_service_pb2 import EntryWrite, EventWrite, LeafWrite, TurnEndWrite, Write
from netaclaw.subagent.v1.runner_service_pb2_grpc import RunnerServiceAsyncStub
from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest, ToolPolicy, ToolRoute, ToolRuntimeRoute
from netaclaw_agent.context import build_context
from netaclaw_agent.guidance import supervisor_system_prompt
from netaclaw_agent.loop import LoopEnd, LoopLimits, calls_of, run_loop
from netaclaw_agent.model import Model, ModelCall, ModelError
from netaclaw_agent.models.catalogue import ModelCatalogue
from netaclaw_agent.policy import (
    Scene,
    SubagentSettings,
    effective_subagent_config,
    main_policy,
    resolve,
    run_call,
)
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS
from netaclaw_agent.tools.delegation import parse_delegation
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import new_id
from netaclaw_orchestrator.answer import AnswerStream
from netaclaw_orchestrator.delegation.batch import Anchor, Batch
from netaclaw_orchestrator.delegation.sources import Parent, allowed_presets, plan_children
from netaclaw_orchestrator.journal import JournalWriter
from netaclaw_orchestrator.publisher import Publisher
from netaclaw_orchestrator.tool_host import ToolHost
from netaclaw_orchestrator.usage import add_usage

log = logging.getLogger(__name__)

DEFAULT_MAX_ROUNDS = 50
DELEGATE_TOOLS = frozenset({"delegate_task", "delegate_parallel"})


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What a turn works with."""

    owner_id: str
    session: Session
    turn_id: str
    agent: Agent
    presets: Sequence[Agent]
    writer: JournalWriter
    publisher: Publisher
    runner: RunnerServiceAsyncStub
    models: ModelCatalogue
    settings: SubagentSettings
    host: ToolHost
    policy: ToolPolicy


def policy_of(agent: Agent, session: Session, settings: SubagentSettings) -> ToolPolicy:
    """The main agent's policy in its session."""
    return main_policy(agent, scene=Scene.SUPERVISOR, workspace=session.workspace, settings=settings)


class Turn:
    """Runs one turn; `wait` returns when its end is committed and published."""

    def __init__(self, context: TurnContext, path: Sequence[Entry], user: Entry, placeholder: Entry) -> None:
        self._context = context
        self._path = list(path)
        self._user = user
        self._entry = placeholder
        self._first = True
        self._usage = Usage()
        self._tool_calls = 0
        self._batches: list[Batch] = []
        self._answer: AnswerStream | None = None
        self._cancelled = False
        config = effective_subagent_config(context.agent, context.settings)
        self._parent = Parent(context.agent, context.policy, context.presets, config, context.settings)
        self._box = resolve(context.policy, self._bind, KNOWN_TOOLS)
        self._made = [user]
        self._task: asyncio.Task[None] | None = None
        self.ended = asyncio.Event()
        """Set when the turn's end is committed, or the session was lost to another owner."""

    @property
    def turn_id(self) -> str:
        return self._context.turn_id

    @property
    def path(self) -> list[Entry]:
        """The session's path with this turn's entries, once it ended."""
        return [*self._path, *self._made, self._entry]

    def start(self) -> None:
        """Run in the background; a client that goes away cancels nothing."""
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """Cancel the turn with all its children; returns when they are gone and the end is committed."""
        if self._task is not None and not self.ended.is_set() and not self._cancelled:
            self._cancelled = True
            self._task.cancel()
        await self.ended.wait()

    async def cancel_subagent(self, task_id: str) -> SubagentTask | None:
        """End one child; None when this turn has no such task."""
        for batch in self._batches:
            task = await batch.cancel(task_id)
            if task is not None:
                return task
        return None

    async def steer_subagent(self, task_id: str, request_id: str, content: str) -> ReceiptState | None:
        """Send a message to one child; None when this turn has no such task."""
        for batch in self._batches:
            child = batch.child(task_id)
            if child is not None:
                return await child.steer(request_id, content)
        return None

    # --- the loop's port ---------------------------------------------------------------------------------------------

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        """Stream one answer into its entry."""
        committed = self._next_anchor()
        model = self._context.models.get(self._context.agent.model)
        call = ModelCall(
            system=self._system(),
            messages=transcript,
            tools=self._box.manifests,
            thinking_level=self._context.session.thinking_level or self._context.agent.thinking_level,
        )
        answer = AnswerStream(self._context.publisher, self.turn_id, self._entry.entry_id, model.name)
        self._answer = answer
        try:
            async with aclosing(model.stream(call, new_id=new_id)) as events:  # type: ignore[type-var]  # a generator
                async for event in events:
                    if committed is not None:  # no delta before its entry is committed; the call is under way meanwhile
                        await committed
                        committed = None
                    answer.add(event)
        except ModelError as error:
            add_usage(self._usage, error.usage)
            raise
        finally:
            if committed is not None:
                await committed
            answer.end()
        message = answer.message
        if message is None:
            raise ModelError("the model's stream ended without a message")
        self._complete(message, model)
        return message

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        """Run the calls of one message: neighbours that only read, and delegations, side by side; others alone."""
        ended: list[ToolCallPart] = []
        for group in self._groups(calls):
            running = [asyncio.create_task(self._run_tool(call)) for call in group]
            try:
                ended.extend(await asyncio.gather(*running))
            except BaseException:
                for task in running:
                    task.cancel()
                await asyncio.wait(running)
                raise
        return ended

    async def take_steering(self) -> list[str]:
        return []

    # --- one model call ----------------------------------------------------------------------------------------------

    def _system(self) -> str:
        return supervisor_system_prompt(self._context.agent, allowed_presets(self._parent), self._parent.config)

    def _next_anchor(self) -> asyncio.Future[None] | None:
        """The entry of the next model call; the first one was made when the turn began."""
        if self._first:
            self._first = False
            return None
        before = self._entry
        self._made.append(before)
        self._entry = Entry(
            entry_id=new_id(),
            session_id=before.session_id,
            parent_entry_id=before.entry_id,
            turn_id=self.turn_id,
            kind=EntryKind.ENTRY_KIND_ASSISTANT,
            state=EntryState.ENTRY_STATE_STREAMING,
            assistant=AssistantBody(agent_id=self._context.agent.agent_id, attempt=1),
        )
        leaf = LeafWrite(leaf_entry_id=self._entry.entry_id, expected_leaf_entry_id=before.entry_id)
        return self._context.writer.post(self._entry_write(), Write(leaf=leaf))

    def _complete(self, message: Message, model: Model) -> None:
        """Bring the entry into its final form; its commit goes out with whatever comes next."""
        add_usage(self._usage, message.usage)
        body = self._entry.assistant
        del body.parts[:]
        body.parts.extend(message.parts)
        body.agent_id = self._context.agent.agent_id
        body.model = message.model or model.name
        body.attempt = 1
        body.usage.CopyFrom(message.usage)
        body.finish_reason = message.finish_reason
        self._entry.state = EntryState.ENTRY_STATE_COMPLETE
        if calls_of(message):
            self._context.writer.post(self._entry_write())
        context_used = message.usage.input_tokens + message.usage.output_tokens
        self._live(
            token_update=TokenUpdate(
                usage=self._total_usage(), context_used=context_used, context_window=model.context_window
            )
        )

    # --- tools -------------------------------------------------------------------------------------------------------

    def _bind(self, manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler | None:
        if manifest.tool_name in DELEGATE_TOOLS:
            return self._delegate
        if manifest.needs_workspace and route.route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY:
            return self._context.host.run
        return None

    def _groups(self, calls: Sequence[ToolCallPart]) -> list[list[ToolCallPart]]:
        groups: list[list[ToolCallPart]] = []
        beside = False
        for call in calls:
            tool = self._box.tools.get(call.tool_name)
            harmless = call.tool_name in DELEGATE_TOOLS or (
                tool is not None and tool.manifest.effect == ToolEffect.TOOL_EFFECT_PURE
            )
            if groups and harmless and beside:
                groups[-1].append(call)
            else:
                groups.append([call])
            beside = harmless
        return groups

    async def _run_tool(self, call: ToolCallPart) -> ToolCallPart:
        """started (committed) → run → completed (committed)."""
        self._tool_calls += 1
        part = self._part(call.call_id)
        tool = self._box.tools.get(call.tool_name)
        refused = self._box.refused.get(call.tool_name)
        if tool is not None:
            part.route.CopyFrom(tool.route)
        elif refused is not None:
            part.route.CopyFrom(refused)
        part.state = ToolCallState.TOOL_CALL_STATE_RUNNING
        part.start_time.GetCurrentTime()
        started = self._event(tool_call_started=ToolCallStarted(call=ToolCallPart(call_id=call.call_id)))
        await self._context.writer.append(self._entry_write(quiet=True), Write(event=EventWrite(event=started)))
        try:
            ended = await run_call(self._box, part)
        except asyncio.CancelledError:
            ended = ToolCallPart()
            ended.CopyFrom(part)
            ended.state = ToolCallState.TOOL_CALL_STATE_CANCELLED
            ended.result.CopyFrom(ToolResult(content="stopped while running; it may have had effect", is_error=True))
            self._finish_call(ended)
            raise
        await self._finish_call(ended)
        return ended

    def _finish_call(self, ended: ToolCallPart) -> asyncio.Future[None]:
        part = self._part(ended.call_id)
        part.CopyFrom(ended)
        part.end_time.GetCurrentTime()
        completed = self._event(tool_call_completed=ToolCallCompleted(call=ToolCallPart(call_id=ended.call_id)))
        return self._context.writer.post(self._entry_write(quiet=True), Write(event=EventWrite(event=completed)))

    async def _delegate(self, call: ToolCallPart) -> ToolResult:
        specs = parse_delegation(call.tool_name, call.arguments_json)
        plans = plan_children(specs, self._parent)
        context = self._context
        anchor = Anchor(
            owner_id=context.owner_id,
            session_id=context.session.session_id,
            turn_id=context.turn_id,
            entry_id=self._entry.entry_id,
            agent=context.agent,
            writer=context.writer,
            publisher=context.publisher,
            runner=context.runner,
            host=context.host,
            attach=self._attach,
        )
        batch = Batch(
            anchor,
            call,
            plans,
            max_concurrent=self._parent.config.max_concurrent,
            timeout_s=self._parent.config.timeout_seconds,
        )
        self._batches.append(batch)
        return await batch.run()

    def _attach(self, batch_entry_id: str, call_id: str) -> Write:
        """Put the card's place right behind its call."""
        reference = Part(batch_reference=BatchReferencePart(batch_entry_id=batch_entry_id, call_id=call_id))
        parts = self._entry.assistant.parts
        place = next(n for n, part in enumerate(parts) if part.tool_call.call_id == call_id)
        parts.insert(place + 1, reference)
        return self._entry_write()

    def _part(self, call_id: str) -> ToolCallPart:
        for part in self._entry.assistant.parts:
            if part.WhichOneof("part") == "tool_call" and part.tool_call.call_id == call_id:
                return part.tool_call
        raise KeyError(call_id)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            await self._run_to_end()
        except NetaclawError as error:
            log.warning("turn lost", extra={"turn_id": self.turn_id, "reason": error.reason_name})
            self._context.publisher.close()
        except Exception:
            log.exception("turn failed", extra={"turn_id": self.turn_id})
            self._context.publisher.close()
        finally:
            self.ended.set()

    async def _run_to_end(self) -> None:
        rounds = self._context.agent.max_tool_rounds or DEFAULT_MAX_ROUNDS
        transcript = build_context([*self._path, self._user])
        try:
            end = await run_loop(self, transcript, LoopLimits(max_rounds=rounds))
        except asyncio.CancelledError:
            await self._finish_cancelled()
        except ModelError as error:
            await self._finish_failed(error)
        else:
            await self._finish(end)

    async def _finish(self, end: LoopEnd) -> None:
        cut_short = end.state == SubagentTaskState.SUBAGENT_TASK_STATE_PARTIAL and calls_of(end.last or Message())
        if end.state == SubagentTaskState.SUBAGENT_TASK_STATE_FAILED or cut_short:
            reason = "LIMIT_REACHED" if cut_short else "MODEL_UNAVAILABLE"
            await self._finish_with_error(reason, end.error, retryable=not cut_short)
            return
        self._entry.assistant.error = end.error
        await self._end_turn(TurnOutcome.TURN_OUTCOME_COMPLETED, self._done(TurnOutcome.TURN_OUTCOME_COMPLETED))

    async def _finish_cancelled(self) -> None:
        self._keep_partial(EntryState.ENTRY_STATE_CANCELLED)
        for part in self._entry.assistant.parts:
            if part.tool_call.state == ToolCallState.TOOL_CALL_STATE_PENDING:
                part.tool_call.state = ToolCallState.TOOL_CALL_STATE_CANCELLED
                part.tool_call.result.CopyFrom(ToolResult(content="never began: the turn was cancelled", is_error=True))
        await self._end_turn(TurnOutcome.TURN_OUTCOME_CANCELLED, self._done(TurnOutcome.TURN_OUTCOME_CANCELLED))

    async def _finish_failed(self, error: ModelError) -> None:
        self._keep_partial(EntryState.ENTRY_STATE_FAILED)
        await self._finish_with_error(error.reason, str(error), retryable=error.retryable)

    def _keep_partial(self, state: EntryState) -> None:
        """An entry that was being written keeps what came."""
        if self._entry.state != EntryState.ENTRY_STATE_STREAMING:
            return
        self._entry.state = state
        if self._answer is not None:
            del self._entry.assistant.parts[:]
            self._entry.assistant.parts.extend(self._answer.partial_parts())

    async def _finish_with_error(self, reason: str, message: str, *, retryable: bool) -> None:
        self._entry.assistant.error = message
        if self._entry.state != EntryState.ENTRY_STATE_COMPLETE:
            self._entry.state = EntryState.ENTRY_STATE_FAILED
        error = Error(
            reason=reason,
            message=message,
            retryable=retryable,
            usage=self._total_usage(),
            assistant_entry_id=self._entry.entry_id,
        )
        await self._end_turn(TurnOutcome.TURN_OUTCOME_FAILED, self._event(error=error))

    async def _end_turn(self, outcome: TurnOutcome, event: ChatEvent) -> None:
        await self._context.writer.append(
            self._entry_write(),
            Write(turn_end=TurnEndWrite(turn_id=self.turn_id, outcome=outcome)),
            Write(event=EventWrite(event=event)),
        )

    def _done(self, outcome: TurnOutcome) -> ChatEvent:
        done = Done(
            outcome=outcome,
            usage=self._total_usage(),
            tool_call_count=self._tool_calls,
            assistant_entry_id=self._entry.entry_id,
        )
        return self._event(done=done)

    # --- small change ------------------------------------------------------------------------------------------------

    def _total_usage(self) -> Usage:
        total = Usage()
        add_usage(total, self._usage)
        for batch in self._batches:
            add_usage(total, batch.usage)
        return total

    def _entry_write(self, *, quiet: bool = False) -> Write:
        return Write(entry=EntryWrite(entry=self._entry, quiet=quiet))

    def _event(self, **payload: object) -> ChatEvent:
        return ChatEvent(
            session_id=self._context.session.session_id,
            turn_id=self.turn_id,
            entry_id=self._entry.entry_id,
            **payload,  # type: ignore[arg-type]  # one member of the event oneof
        )

    def _live(self, **payload: object) -> None:
        self._context.publisher.live(self._event(**payload))
