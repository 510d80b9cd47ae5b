"""A session may have several roots: messages without a parent, each the beginning of a tree of its own."""

from __future__ import annotations

from netaclaw.chat.v1.chat_service_pb2 import WHEN_BUSY_ENQUEUE
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import (
    INSTANCE,
    OWNER,
    Store,
    Turn,
    entry_write,
    metadata,
    refused,
    text,
)


async def _answered(store: Store, session_id: str, content: str, **fields: object) -> Turn:
    """A finished turn in a session that exists."""
    turn = Turn(store, await store.begin(session_id, content, **fields))
    await turn.finish(entry_write(turn.assistant(text(f"to {content}"))))
    return turn


async def _two_roots(store: Store) -> tuple[Turn, Turn, Turn]:
    """A root with two turns, and a second root with one, where the leaf stands."""
    first = await store.new_turn(content="first")
    await first.finish(entry_write(first.assistant(text("to first"))))
    further = await _answered(store, first.session_id, "further")
    return first, further, await _answered(store, first.session_id, "second", from_root=True)


async def _lease(store: Store, session_id: str) -> int:
    request = j.AcquireSessionRequest(instance_id=INSTANCE, owner_id=OWNER, session_id=session_id)
    return (await store.journal.AcquireSession(request)).generation


async def _to_root(store: Store, session_id: str, **fields: str) -> j.SwitchLeafResponse:
    generation = await _lease(store, session_id)
    request = j.SwitchLeafRequest(
        owner_id=OWNER, session_id=session_id, generation=generation, to_root=True, leaf_entry_id=fields.get("leaf", "")
    )
    return await store.journal.SwitchLeaf(request)


async def _messages(store: Store, session_id: str, leaf: str = "", *, compacted: bool = False) -> list[str]:
    request = p.ListMessagesRequest(session_id=session_id, leaf_entry_id=leaf, compacted=compacted)
    page = await store.sessions.ListMessages(request, metadata=metadata())
    return [entry.entry_id for entry in page.entries]


async def _read_path(store: Store, session_id: str, leaf: str = "") -> list[str]:
    request = j.ReadPathRequest(owner_id=OWNER, session_id=session_id, leaf_entry_id=leaf)
    return [entry.entry_id async for page in store.journal.ReadPath(request) for entry in page.entries]


async def test_a_turn_from_the_root_has_no_parent_and_no_path(store: Store) -> None:
    first, _, second = await _two_roots(store)
    user = second.begun.events[0].session_entry_added.entry
    assert (user.parent_entry_id, user.user.text) == ("", "second")
    assert not second.begun.path
    assert not second.begun.path_omitted
    kinds = [event.WhichOneof("event") for event in second.begun.events]
    assert kinds == ["session_entry_added", "session_entry_added", "session_leaf_changed"], "the title stays"
    stored = await store.replay(first.session_id, after_seq=second.begun.turn_start_seq)
    assert [event.seq for event in stored] == [event.seq for event in [*second.begun.events, *second.events]]
    request = p.GetSessionRequest(session_id=first.session_id)
    session = (await store.sessions.GetSession(request, metadata=metadata())).session
    assert (session.title, session.leaf_entry_id) == ("first", second.anchor_id)


async def test_what_follows_a_second_root_hangs_below_it(store: Store) -> None:
    _, _, second = await _two_roots(store)
    third = await store.begin(second.session_id, known_entry_id=second.anchor_id)
    assert third.events[0].session_entry_added.entry.parent_entry_id == second.anchor_id
    assert not third.path
    await Turn(store, third).finish()
    whole = await store.begin(second.session_id, leaf_entry_id=second.anchor_id)
    assert [entry.entry_id for entry in whole.path] == [second.user_id, second.anchor_id]


async def test_the_tree_is_read_in_pages_with_all_its_roots(store: Store) -> None:
    first, further, second = await _two_roots(store)
    entries = await store.tree(first.session_id, page_size=1)
    turns = (first, further, second)
    assert [entry.entry_id for entry in entries] == [id_ for turn in turns for id_ in (turn.user_id, turn.anchor_id)]
    assert [entry.entry_id for entry in entries if not entry.parent_entry_id] == [first.user_id, second.user_id]


async def test_each_path_leads_to_its_own_root(store: Store) -> None:
    first, further, second = await _two_roots(store)
    old = [first.user_id, first.anchor_id, further.user_id, further.anchor_id]
    new = [second.user_id, second.anchor_id]
    for read in (_messages, _read_path):
        assert await read(store, first.session_id) == new
        assert await read(store, first.session_id, further.anchor_id) == old


async def test_a_compaction_of_one_root_leaves_the_other_whole(store: Store) -> None:
    first, further, second = await _two_roots(store)
    third = Turn(store, await store.begin(first.session_id, "third"))
    made = e.Entry(entry_id=new_id(), parent_entry_id=third.anchor_id, kind=e.ENTRY_KIND_COMPACTION)
    made.compaction.first_kept_entry_id = third.user_id
    leaf = j.LeafWrite(leaf_entry_id=made.entry_id, expected_leaf_entry_id=third.anchor_id)
    await third.finish(entry_write(made), j.Write(leaf=leaf))
    compacted = await _messages(store, first.session_id, compacted=True)
    assert compacted == [made.entry_id, third.user_id, third.anchor_id]
    old = await _messages(store, first.session_id, further.anchor_id, compacted=True)
    assert old == [first.user_id, first.anchor_id, further.user_id, further.anchor_id]
    assert second.user_id not in old


async def test_a_fork_copies_all_roots_or_the_one_that_its_entry_stands_on(store: Store) -> None:
    first, _, second = await _two_roots(store)
    whole, part = new_id(), new_id()
    request = j.ForkSessionRequest(owner_id=OWNER, session_id=first.session_id, new_session_id=whole)
    copy = (await store.journal.ForkSession(request)).session
    entries = await store.tree(whole)
    assert [entry.user.text for entry in entries if not entry.parent_entry_id] == ["first", "second"]
    assert copy.leaf_entry_id == entries[-1].entry_id
    request = j.ForkSessionRequest(
        owner_id=OWNER, session_id=first.session_id, new_session_id=part, entry_id=second.anchor_id
    )
    await store.journal.ForkSession(request)
    assert [entry.user.text for entry in await store.tree(part) if not entry.parent_entry_id] == ["second"]


async def test_deleting_a_root_takes_its_tree_alone_and_leaves_the_session_at_the_root(store: Store) -> None:
    first, further, second = await _two_roots(store)
    generation = await _lease(store, first.session_id)
    request = j.DeleteBranchRequest(
        owner_id=OWNER, session_id=first.session_id, generation=generation, entry_id=second.user_id
    )
    response = await store.journal.DeleteBranch(request)
    assert (response.deleted_count, response.session.leaf_entry_id) == (2, "")
    left = [entry.entry_id for entry in await store.tree(first.session_id)]
    assert left == [first.user_id, first.anchor_id, further.user_id, further.anchor_id]
    begun = await store.begin(first.session_id)
    assert begun.events[0].session_entry_added.entry.parent_entry_id == ""
    await Turn(store, begun).finish()
    request.entry_id, request.generation = first.user_id, await _lease(store, first.session_id)
    response = await store.journal.DeleteBranch(request)
    assert response.deleted_count == 4
    assert response.session.leaf_entry_id, "the leaf stands in the other tree"


async def test_the_leaf_goes_back_before_the_first_message(store: Store) -> None:
    first, further, _ = await _two_roots(store)
    switched = await _to_root(store, first.session_id)
    assert switched.session.leaf_entry_id == ""
    assert [event.session_leaf_changed.leaf_entry_id for event in switched.events] == [""]
    replayed = await store.replay(first.session_id, after_seq=switched.session.seq - 1)
    assert replayed == list(switched.events)
    assert replayed[0].HasField("session_leaf_changed")
    assert not (await _to_root(store, first.session_id)).events, "it is there already"
    assert await _messages(store, first.session_id) == await _read_path(store, first.session_id) == []
    begun = await store.begin(first.session_id)
    assert begun.events[0].session_entry_added.entry.parent_entry_id == ""
    assert not begun.path
    await Turn(store, begun).finish()
    assert await _read_path(store, first.session_id, further.anchor_id)


async def test_a_message_that_waits_begins_at_the_root_when_its_turn_comes(store: Store) -> None:
    turn = await store.new_turn()
    await store.begin(turn.session_id, "waits", when_busy=WHEN_BUSY_ENQUEUE, request_id="q", from_root=True)
    await store.begin(turn.session_id, "follows", when_busy=WHEN_BUSY_ENQUEUE)
    await turn.finish()
    taken = await store.begin(turn.session_id, "", from_queue=True)
    users = [event.session_entry_added.entry for event in taken.events if event.HasField("session_entry_added")]
    assert (users[0].user.text, users[0].parent_entry_id) == ("waits", "")
    assert not taken.path
    waits = Turn(store, taken)
    await waits.finish()
    following = await store.begin(turn.session_id, "", from_queue=True)
    added = [event.session_entry_added.entry for event in following.events if event.HasField("session_entry_added")]
    assert (added[0].user.text, added[0].parent_entry_id) == ("follows", taken.session.leaf_entry_id)


async def test_a_repeat_from_the_root_joins_the_turn_that_it_began(store: Store) -> None:
    first, _, _ = await _two_roots(store)
    begun = await store.begin(first.session_id, "anew", request_id="r", from_root=True)
    joined = await store.begin(first.session_id, "anew", request_id="r", from_root=True)
    assert joined.outcome == j.BEGIN_TURN_OUTCOME_JOINED
    assert joined.turn_id == begun.turn_id


async def test_a_new_session_begins_at_its_root_anyway(store: Store) -> None:
    turn = await store.new_turn(from_root=True)
    assert turn.begun.events[0].session_entry_added.entry.parent_entry_id == ""


async def test_the_root_and_an_entry_cannot_both_be_named(store: Store) -> None:
    first, _, second = await _two_roots(store)
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await store.begin(first.session_id, leaf_entry_id=first.anchor_id, from_root=True)
    assert [field for field, _ in errors[0].violations] == ["from_root"]
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await _to_root(store, first.session_id, leaf=first.anchor_id)
    assert [field for field, _ in errors[0].violations] == ["to_root"]
    assert (await store.tree(first.session_id))[-1].entry_id == second.anchor_id, "nothing was written"
