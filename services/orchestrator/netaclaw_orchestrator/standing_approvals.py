"""What questions of a session have become: why one is closed, and what was allowed for good."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.entry_pb2 import ClarifyState, Entry
from netaclaw.store.v1.journal_service_pb2 import ReadQuestionsRequest
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import is_id
from netaclaw_orchestrator.journal import translated

if TYPE_CHECKING:  # the stubs' async faces exist for types only
    from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceAsyncStub

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

    def __init__(self, journal: JournalServiceAsyncStub) -> None:
        self._journal = journal

    async def read(
        self, owner_id: str, session_id: str, *, turn_id: str = "", request_id: str = ""
    ) -> AsyncIterator[Entry]:
        """CLARIFY entries of a session, oldest first; of a turn, or the one of a request, where one is named."""
        request = ReadQuestionsRequest(owner_id=owner_id, session_id=session_id, turn_id=turn_id, request_id=request_id)
        with translated():
            async for page in self._journal.ReadQuestions(request):
                for entry in page.entries:
                    yield entry

    async def of_turn(self, owner_id: str, session_id: str, turn_id: str) -> list[Entry]:
        """The questions of one turn."""
        return [entry async for entry in self.read(owner_id, session_id, turn_id=turn_id)]

    async def not_open(self, owner_id: str, session_id: str, request_id: str) -> NetaclawError:
        """Why a question cannot be answered here: ENTRY_NOT_FOUND, CLARIFY_CLOSED, or its next owner is to come."""
        found = None
        if is_id(request_id):
            async for entry in self.read(owner_id, session_id, request_id=request_id):
                found = entry
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
    """Calls that a person has allowed for the rest of a session, by agent and tool. Read once."""

    def __init__(self, reader: QuestionReader, owner_id: str, session_id: str) -> None:
        self._reader = reader
        self._owner_id = owner_id
        self._session_id = session_id
        self._known: set[tuple[str, str]] | None = None
        self._added: set[tuple[str, str]] = set()

    async def has(self, agent_id: str, tool_name: str) -> bool:
        """Whether calls of the agent's tool are allowed. Raises NetaclawError."""
        if self._known is None:
            self._known = {
                (entry.clarify.agent_id, entry.clarify.approval.tool_name)
                async for entry in self._reader.read(self._owner_id, self._session_id)
                if entry.clarify.HasField("approval")
                and entry.clarify.state == ClarifyState.CLARIFY_STATE_ANSWERED
                and entry.clarify.answer == ALWAYS
            }
        return (agent_id, tool_name) in self._known | self._added

    def add(self, agent_id: str, tool_name: str) -> None:
        """A person has just said so, and it is committed."""
        self._added.add((agent_id, tool_name))
