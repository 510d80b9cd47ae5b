"""What questions of a session have become, read from its tree: why one is closed, and what was allowed for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry, EntryKind
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeRequest
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_orchestrator.journal import translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.session.v1.session_service_pb2_grpc import SessionServiceAsyncStub

ALLOW: Final = "allow"
DENY: Final = "deny"
ALWAYS: Final = "always"
CHOICES: Final = (ALLOW, DENY, ALWAYS)
"""Answers to an approval."""

_CLOSED = {
    ClarifyState.CLARIFY_STATE_ANSWERED: "the question was answered already",
    ClarifyState.CLARIFY_STATE_EXPIRED: "the question has expired",
    ClarifyState.CLARIFY_STATE_CLOSED: "the question was closed when its turn ended",
}


class QuestionReader:
    """Reads the questions of sessions. Raises NetaclawError: SESSION_NOT_FOUND, or when the store cannot be asked."""

    def __init__(self, sessions: SessionServiceAsyncStub) -> None:
        self._sessions = sessions

    async def all(self, owner_id: str, session_id: str) -> list[Entry]:
        """Every CLARIFY entry of a session."""
        found: list[Entry] = []
        request = GetSessionTreeRequest(session_id=session_id)
        while True:
            with translated():
                page = await self._sessions.GetSessionTree(request, metadata=calls.outgoing(owner_id))
            found.extend(entry for entry in page.entries if entry.kind == EntryKind.ENTRY_KIND_CLARIFY)
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def of_turn(self, owner_id: str, session_id: str, turn_id: str) -> list[Entry]:
        """The questions of one turn."""
        return [entry for entry in await self.all(owner_id, session_id) if entry.turn_id == turn_id]

    async def not_open(self, owner_id: str, session_id: str, request_id: str) -> NetaclawError:
        """Why a question cannot be answered here: ENTRY_NOT_FOUND, CLARIFY_CLOSED, or its next owner is to come."""
        entries = await self.all(owner_id, session_id)
        found = next((entry for entry in entries if entry.clarify.request_id == request_id), None)
        if found is None:
            return NetaclawError(
                Reason.REASON_ENTRY_NOT_FOUND, "there is no such question", metadata={"entry_id": request_id}
            )
        state = found.clarify.state
        if state == ClarifyState.CLARIFY_STATE_OPEN:
            return NetaclawError(
                Reason.REASON_SERVICE_UNAVAILABLE,
                "the question is being taken over: try again",
                metadata={"service": "orchestrator"},
            )
        name = ClarifyState.Name(state).removeprefix("CLARIFY_STATE_")
        return NetaclawError(
            Reason.REASON_CLARIFY_CLOSED,
            _CLOSED.get(state, "the question is closed"),
            metadata={"request_id": request_id, "state": name},
        )


class StandingApprovals:
    """Calls that a person has allowed for the rest of a session, by agent and tool. Read from the tree once."""

    def __init__(self, reader: QuestionReader, owner_id: str, session_id: str) -> None:
        self._reader = reader
        self._owner_id = owner_id
        self._session_id = session_id
        self._known: set[tuple[str, str]] | None = None
        self._added: set[tuple[str, str]] = set()

    async def has(self, agent_id: str, tool_name: str) -> bool:
        """Whether calls of the agent's tool are allowed. Raises NetaclawError."""
        if self._known is None:
            entries = await self._reader.all(self._owner_id, self._session_id)
            self._known = {
                (entry.clarify.agent_id, entry.clarify.approval.tool_name)
                for entry in entries
                if entry.clarify.HasField("approval")
                and entry.clarify.state == ClarifyState.CLARIFY_STATE_ANSWERED
                and entry.clarify.answer == ALWAYS
            }
        return (agent_id, tool_name) in self._known | self._added

    def add(self, agent_id: str, tool_name: str) -> None:
        """A person has just said so, and it is committed."""
        self._added.add((agent_id, tool_name))
