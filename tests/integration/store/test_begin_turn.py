"""BeginTurn: one transaction, safe to repeat, one turn at a time."""

from __future__ import annotations

import asyncio

import pytest

from netaclaw.agent.v1 import agent_pb2
from netaclaw.agent.v1 import agent_service_pb2 as a
from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import INSTANCE, OWNER, Store, Turn, entry_write, metadata, refused, text


async def test_a_turn_starts_with_its_entries_leaf_and_events_in_order(store: Store) -> None:
    turn = await store.new_turn(content="What is\nup?")
    begun = turn.begun
    assert begun.outcome == j.BEGIN_TURN_OUTCOME_STARTED
    assert [event.WhichOneof("event") for event in begun.events] == [
        "session_entry_added",
        "session_entry_added",
        "session_leaf_changed",
        "session_updated",
    ]
    assert [event.seq for event in begun.events] == [1, 2, 3, 4]
    user, placeholder = (event.session_entry_added.entry for event in begun.events[:2])
    assert (user.kind, user.state, user.user.text) == (e.ENTRY_KIND_USER, e.ENTRY_STATE_COMPLETE, "What is\nup?")
    assert (placeholder.kind, placeholder.state) == (e.ENTRY_KIND_ASSISTANT, e.ENTRY_STATE_STREAMING)
    assert placeholder.parent_entry_id == user.entry_id
    assert begun.events[2].session_leaf_changed.leaf_entry_id == placeholder.entry_id
    assert begun.session.title == "What is up?"
    assert begun.session.running_turn_id == begun.turn_id
    assert begun.session.workspace == "default"
    assert begun.generation > 0


async def test_what_begin_turn_answers_is_what_stands_in_the_store(store: Store) -> None:
    turn = await store.new_turn()
    assert await store.tree(turn.session_id) == [
        event.session_entry_added.entry for event in turn.begun.events if event.HasField("session_entry_added")
    ]
    assert await store.replay(turn.session_id) == list(turn.begun.events)


async def test_the_default_agent_is_made_once_and_answers(store: Store) -> None:
    first, second = await asyncio.gather(store.new_turn(), store.new_turn())
    assert first.begun.agent.name == "assistant"
    assert first.begun.agent == second.begun.agent
    assert list(first.begun.presets) == [first.begun.agent]


async def test_an_agent_is_found_by_id_then_by_name_then_by_session(store: Store) -> None:
    made = {}
    for name in ("by id", "by name"):
        request = a.CreateAgentRequest(agent=agent_pb2.Agent(name=name))
        made[name] = (await store.agents.CreateAgent(request, metadata=metadata())).agent
    by_id = await store.new_turn(agent_id=made["by id"].agent_id, agent_name="by name")
    assert by_id.begun.agent == made["by id"]
    by_name = await store.new_turn(agent_name="by name")
    assert by_name.begun.agent == made["by name"]
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await store.new_turn(agent_name="nobody")
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await store.new_turn(agent_id=new_id())


async def test_the_path_begins_after_the_entry_that_the_caller_knows(store: Store) -> None:
    first = await store.new_turn()
    await first.finish(entry_write(first.assistant(text("one"))))
    whole = await store.begin(first.session_id)
    assert [entry.entry_id for entry in whole.path] == [first.user_id, first.anchor_id]
    assert whole.path[1].assistant.parts[0].text.text == "one"
    second = Turn(store, whole)
    await second.finish()
    rest = await store.begin(first.session_id, known_entry_id=first.anchor_id)
    assert [entry.entry_id for entry in rest.path] == [second.user_id, second.anchor_id]
    assert rest.events[0].session_entry_added.entry.parent_entry_id == second.anchor_id


async def test_a_path_over_512_kib_is_left_to_read_path(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish(entry_write(turn.assistant(text("x" * 600_000))))
    begun = await store.begin(turn.session_id)
    assert begun.path_omitted
    assert not begun.path
    pages = [
        page async for page in store.journal.ReadPath(j.ReadPathRequest(owner_id=OWNER, session_id=turn.session_id))
    ]
    ids = [entry.entry_id for page in pages for entry in page.entries]
    assert ids[:2] == [turn.user_id, turn.anchor_id]


async def test_a_turn_continues_from_any_node(store: Store) -> None:
    first = await store.new_turn()
    await first.finish()
    second = Turn(store, await store.begin(first.session_id))
    await second.finish()
    branch = await store.begin(first.session_id, leaf_entry_id=first.anchor_id)
    assert branch.events[0].session_entry_added.entry.parent_entry_id == first.anchor_id
    await Turn(store, branch).finish()
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        await store.begin(first.session_id, leaf_entry_id=new_id())


async def test_the_same_request_id_and_content_joins_the_turn(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish()
    first = await store.begin(turn.session_id, "again", request_id="r")
    joined = await store.begin(turn.session_id, "again", request_id="r")
    assert joined.outcome == j.BEGIN_TURN_OUTCOME_JOINED
    assert (joined.turn_id, joined.turn_start_seq) == (first.turn_id, first.turn_start_seq)
    assert joined.generation == 0
    assert len(await store.tree(turn.session_id)) == 4


async def test_a_request_id_without_a_session_is_unique_per_owner(store: Store) -> None:
    first = await store.new_turn(request_id="r")
    joined = await store.new_turn(request_id="r")
    assert joined.begun.outcome == j.BEGIN_TURN_OUTCOME_JOINED
    assert joined.session_id == first.session_id
    other = await store.new_turn(request_id="r", owner_id="bob")
    assert other.begun.outcome == j.BEGIN_TURN_OUTCOME_STARTED


async def test_simultaneous_repeats_begin_one_turn(store: Store) -> None:
    turns = await asyncio.gather(*(store.new_turn(request_id="r") for _ in range(6)))
    assert len({turn.session_id for turn in turns}) == 1
    outcomes = sorted(turn.begun.outcome for turn in turns)
    assert outcomes == [j.BEGIN_TURN_OUTCOME_STARTED] + [j.BEGIN_TURN_OUTCOME_JOINED] * 5


async def test_a_request_id_with_other_content_is_refused(store: Store) -> None:
    turn = await store.new_turn(request_id="r")
    async with refused(Reason.REASON_REQUEST_ID_REUSED):
        await store.new_turn(request_id="r", content="other")
    async with refused(Reason.REASON_REQUEST_ID_REUSED):
        await store.begin(turn.session_id, "other", request_id="r")


async def test_a_second_turn_is_refused_while_one_runs(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_TURN_RUNNING) as errors:
        await store.begin(turn.session_id)
    assert errors[0].metadata == {"turn_id": turn.begun.turn_id}
    await turn.finish()
    assert (await store.begin(turn.session_id)).outcome == j.BEGIN_TURN_OUTCOME_STARTED


async def test_only_one_of_many_simultaneous_turns_begins(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish()
    results = await asyncio.gather(*(store.begin(turn.session_id) for _ in range(8)), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert [event.seq for event in await store.replay(turn.session_id)] == list(range(1, 9))


async def test_a_session_that_is_not_there_or_another_owners_is_not_found(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.begin(new_id())
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.begin(turn.session_id, owner_id="bob")
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.begin(turn.session_id, owner_id="bob", create_session=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", ""),
        ("content", "é" * 131_073),
        ("turn_id", "7"),
        ("user_entry_id", "NOT-AN-ID"),
        ("agent_id", "x"),
        ("leaf_entry_id", "x"),
        ("request_id", "x" * 129),
        ("owner_id", ""),
        ("instance_id", ""),
    ],
)
async def test_bad_fields_are_named(store: Store, field: str, value: str) -> None:
    fields = {"content": "hello", field: value}
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await store.begin(new_id(), create_session=True, **fields)
    assert [name for name, _ in errors[0].violations] == [field]
    assert await store.query("SELECT FROM session") == []


async def test_an_instance_that_never_beat_begins_nothing_and_may_try_again(store: Store) -> None:
    async with refused(Reason.REASON_SERVICE_UNAVAILABLE):
        await store.new_turn(instance_id="stranger")
    assert await store.query("SELECT FROM session") == []
    await store.beat("stranger")
    await store.new_turn(instance_id="stranger")


async def test_nul_in_a_message_is_kept_in_the_entry(store: Store) -> None:
    turn = await store.new_turn(content="a\0b")
    assert (await store.tree(turn.session_id))[0].user.text == "a\0b"
    assert turn.begun.session.title == "a�b"


@pytest.mark.parametrize("way", ["new session", "known session", "request id", "from queue"])
async def test_a_try_whose_answer_was_lost_is_joined_and_its_turn_left_to_whoever_claims_it(
    store: Store, way: str
) -> None:
    session_id = new_id()
    ids = {"turn_id": new_id(), "user_entry_id": new_id(), "assistant_entry_id": new_id()}
    if way == "new session":
        ids["create_session"] = True  # type: ignore[assignment]  # fields of one message
    else:
        turn = await store.new_turn()
        session_id = turn.session_id
        if way == "from queue":
            await store.begin(session_id, when_busy=WHEN_BUSY_ENQUEUE)
            ids["from_queue"] = True  # type: ignore[assignment]  # fields of one message
        elif way == "request id":
            ids["request_id"] = "once"
        await turn.finish()
    first = await store.begin(session_id, **ids)
    again = await store.begin(session_id, **ids)
    assert first.outcome == j.BEGIN_TURN_OUTCOME_STARTED
    assert (again.outcome, again.turn_id) == (j.BEGIN_TURN_OUTCOME_JOINED, ids["turn_id"])
    assert again.turn_start_seq == first.turn_start_seq
    claimed = await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=INSTANCE))
    assert [each.turn_id for each in claimed.turns] == [ids["turn_id"]]
    assert len(await store.query("SELECT FROM turn WHERE session_id = $1", session_id)) == (
        1 if way == "new session" else 2
    )
