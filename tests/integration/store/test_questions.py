"""Questions are read without the rest of their session's tree."""

from __future__ import annotations

import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import OWNER, Store, Turn, entry_write, refused


def question(turn: Turn, words: str = "Which?") -> e.Entry:
    entry_id = new_id()
    return e.Entry(
        entry_id=entry_id,
        parent_entry_id=turn.anchor_id,
        turn_id=turn.begun.turn_id,
        kind=e.ENTRY_KIND_CLARIFY,
        state=e.ENTRY_STATE_COMPLETE,
        clarify=e.ClarifyBody(request_id=entry_id, question=words, state=e.CLARIFY_STATE_OPEN),
    )


async def read(store: Store, session_id: str, **fields: str) -> list[list[str]]:
    """Ids of the questions, page by page."""
    request = j.ReadQuestionsRequest(**{"owner_id": OWNER, **fields}, session_id=session_id)
    return [[entry.entry_id for entry in page.entries] async for page in store.journal.ReadQuestions(request)]


async def test_questions_are_read_of_a_session_of_a_turn_and_alone(store: Store) -> None:
    turn = await store.new_turn()
    first, second = question(turn), question(turn)
    await turn.append(entry_write(first), entry_write(second))
    await turn.finish()
    later = Turn(store, await store.begin(turn.session_id))
    third = question(later)
    await later.append(entry_write(third))
    ids = [first.entry_id, second.entry_id, third.entry_id]
    assert await read(store, turn.session_id) == [ids]
    assert await read(store, turn.session_id, turn_id=turn.begun.turn_id) == [ids[:2]]
    assert await read(store, turn.session_id, request_id=ids[1]) == [[ids[1]]]
    assert await read(store, turn.session_id, request_id=turn.anchor_id) == []


async def test_large_questions_come_in_messages_of_their_own(store: Store) -> None:
    turn = await store.new_turn()
    large = [question(turn, "x" * 400_000) for _ in range(3)]
    for each in large:
        await turn.append(entry_write(each))
    assert await read(store, turn.session_id) == [[each.entry_id] for each in large]


async def test_questions_of_another_owner_are_not_found(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await read(store, turn.session_id, owner_id="bob")


@pytest.mark.parametrize("field", ["turn_id", "request_id"])
async def test_a_name_that_is_no_id_is_refused(field: str, store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_INVALID_FIELD):
        await read(store, turn.session_id, **{field: "what"})
