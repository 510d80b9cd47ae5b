"""Trees that went wrong elsewhere: cuts inside a batch of calls, forgotten leaves, forks that lose half a chat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from netaclaw.agent.v1.agent_pb2 import ThinkingLevel
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1.session_command_service_pb2 import EntryLabel
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_agent.context import build_context
from netaclaw_agent.loop import calls_of, text_of
from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.openai_request import request_body
from netaclaw_chassis.ids import new_id
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import (
    INSTANCE,
    OWNER,
    Store,
    Turn,
    append,
    entry_write,
    refused,
    running_store,
    text,
)

CASES = Path(__file__).parents[1] / "cases"
COMPACT, FORK, LEAF = (
    json.loads((CASES / name).read_text()) for name in ("tree-02.json", "tree-04.json", "tree-03.json")
)


@pytest.fixture
def settings(postgres_url: str) -> StoreSettings:
    return StoreSettings(database_url=postgres_url, port=0, internal_port=0)


@pytest.fixture
async def store(settings: StoreSettings) -> AsyncIterator[Store]:
    async with running_store(settings) as running:
        await running.beat()
        yield running


@dataclass
class Tree:
    """A case's entries in a session: results are parts of their call's entry, labels and settings are columns."""

    store: Store
    turn: Turn
    ids: dict[str, str] = field(default_factory=dict)
    """The case's name of an entry to its id; a result's, a label's and a setting's name leads to what holds it."""

    @classmethod
    async def make(cls, store: Store, entries: Sequence[Mapping[str, Any]], leaf: str) -> Tree:
        """Write the entries in order; the first one is the user entry that begins the turn."""
        turn = await store.new_turn(content=entries[0]["text"])
        tree = cls(store, turn, {entries[0]["id"]: turn.user_id})
        results = {each["call"]: each["text"] for each in entries if each["kind"] == "tool_result"}
        for each in entries[1:]:
            if each["kind"] in ("tool_result", "label", "settings"):
                tree.ids[each["id"]] = tree.ids[each["parent"]]
                continue
            entry = tree._entry(each, results)
            tree.ids[each["id"]] = entry.entry_id
            await turn.append(entry_write(entry))
        placeholder = turn.anchor_id
        await turn.finish(j.Write(leaf=j.LeafWrite(leaf_entry_id=tree.ids[leaf], expected_leaf_entry_id=placeholder)))
        return tree

    def _entry(self, each: Mapping[str, Any], results: Mapping[str, str]) -> e.Entry:
        entry = e.Entry(
            entry_id=new_id(),
            parent_entry_id=self.ids[each["parent"]],
            turn_id=self.turn.begun.turn_id,
            state=e.ENTRY_STATE_COMPLETE,
        )
        if each["kind"] == "user":
            entry.kind = e.ENTRY_KIND_USER
            entry.user.text = each["text"]
        elif each["kind"] == "compaction":
            entry.kind = e.ENTRY_KIND_COMPACTION
            entry.compaction.summary = each["summary"]
            entry.compaction.first_kept_entry_id = self.ids[each["first_kept"]]
        else:
            entry.kind = e.ENTRY_KIND_ASSISTANT
            parts = [text(each["text"])] if "text" in each else []
            parts += [_call(call_id, results[call_id]) for call_id in each.get("tool_calls", [])]
            entry.assistant.CopyFrom(e.AssistantBody(parts=parts, attempt=1))
        return entry

    async def lease(self) -> int:
        request = j.AcquireSessionRequest(instance_id=INSTANCE, owner_id=OWNER, session_id=self.turn.session_id)
        return (await self.store.journal.AcquireSession(request)).generation


def _call(call_id: str, result: str) -> e.Part:
    call = e.ToolCallPart(call_id=call_id, tool_name="lookup", arguments_json="{}", state=e.TOOL_CALL_STATE_COMPLETED)
    call.result.content = result
    return e.Part(tool_call=call)


async def path_of(store: Store, session_id: str, leaf_entry_id: str = "") -> list[e.Entry]:
    request = j.ReadPathRequest(owner_id=OWNER, session_id=session_id, leaf_entry_id=leaf_entry_id)
    return [entry async for page in store.journal.ReadPath(request) for entry in page.entries]


def words(path: Sequence[e.Entry]) -> list[str]:
    """What a model sees of a path, in the case's words."""
    shown: list[str] = []
    for message in build_context(path):
        said = text_of(message)
        shown += [said.rpartition("\n")[2]] if said else []
        for call in calls_of(message):
            shown += [f"call {call.call_id}", call.result.content]
    return shown


@pytest.mark.parametrize("keep", COMPACT["compact_with_keep_recent"])
async def test_no_cut_of_a_compaction_parts_a_call_from_its_result(store: Store, keep: int) -> None:
    """C22: whatever is kept, each kept call has its result and each kept result its call, in the request, too."""
    entries = COMPACT["entries"]
    tree = await Tree.make(store, entries, COMPACT["leaf"])
    first_kept = tree.ids[entries[-keep]["id"]]  # a result's entry is its call's: the cut moves outwards
    turn = Turn(store, await store.begin(tree.turn.session_id, "q4"))
    compaction = e.Entry(entry_id=new_id(), parent_entry_id=tree.ids["e8"], kind=e.ENTRY_KIND_COMPACTION)
    compaction.compaction.CopyFrom(e.CompactionBody(summary="S", first_kept_entry_id=first_kept))
    await turn.append(entry_write(compaction))
    context = build_context(await path_of(store, turn.session_id, compaction.entry_id))
    sent = request_body(ModelCall(system="", messages=context, tools=[]), "m")["messages"]
    calls = [call["id"] for message in sent for call in message.get("tool_calls", [])]
    results = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert calls == results
    assert set(calls) in (set(), {"k1", "k2"})
    assert context[0].entry_id == compaction.entry_id
    assert context[1].entry_id == first_kept


@pytest.mark.parametrize("scenario", LEAF["scenarios"], ids=lambda each: str(each["stored_leaf"]))
async def test_a_reopened_session_stands_on_its_stored_leaf(
    store: Store, settings: StoreSettings, scenario: dict[str, Any]
) -> None:
    """C25: a late line of a replaced process is refused, and whatever was written last, the stored leaf rules."""
    *entries, late = LEAF["entries_in_write_order"]
    tree = await Tree.make(store, entries, "b2")
    session_id, stored_leaf = tree.turn.session_id, scenario["stored_leaf"]
    generation = await tree.lease()
    if stored_leaf is None:  # no command leads there as long as the tree has entries
        await store.query("UPDATE session SET leaf_entry_id = '' WHERE session_id = $1", session_id)
    else:
        request = j.SwitchLeafRequest(
            owner_id=OWNER, session_id=session_id, generation=generation, leaf_entry_id=tree.ids[stored_leaf]
        )
        await store.journal.SwitchLeaf(request)
    note = e.Entry(entry_id=new_id(), parent_entry_id=tree.ids[late["parent"]], kind=e.ENTRY_KIND_USER)
    note.user.text = late["text"]
    async with refused(Reason.REASON_STALE_GENERATION):
        await append(store, tree.turn.request(entry_write(note)))
    async with running_store(settings) as reopened:
        path = [entry.entry_id for entry in await path_of(reopened, session_id)]
        assert path == [tree.ids[name] for name in scenario["expect_path"]]
        claimed = await reopened.journal.ClaimDue(j.ClaimDueRequest(instance_id=INSTANCE))
        assert not claimed.turns, "no turn starts by itself, not even on an unanswered message"
        begun = await reopened.begin(session_id, "next")
    assert [entry.entry_id for entry in begun.path] == path
    assert begun.events[0].session_entry_added.entry.parent_entry_id == (path[-1] if path else "")


@dataclass(frozen=True)
class Fork:
    """A copy, seen by the source's names."""

    entries: list[e.Entry]
    session: e.Session
    words: list[str]

    def of(self, body: str) -> list[e.Entry]:
        return [entry for entry in self.entries if entry.HasField(body)]


async def fork(tree: Tree, entry_id: str) -> Fork:
    request = j.ForkSessionRequest(
        owner_id=OWNER, session_id=tree.turn.session_id, entry_id=entry_id, new_session_id=new_id()
    )
    session = (await tree.store.journal.ForkSession(request)).session
    entries = await tree.store.tree(session.session_id)
    return Fork(entries, session, words(await path_of(tree.store, session.session_id)))


@pytest.fixture
async def source(store: Store) -> Tree:
    """The case's tree with its label and its changed setting, which are columns here."""
    tree = await Tree.make(store, FORK["entries"], FORK["leaf"])
    marked = next(each for each in FORK["entries"] if each["kind"] == "label")
    await store.journal.UpdateSession(
        j.UpdateSessionRequest(
            owner_id=OWNER,
            session=e.Session(session_id=tree.turn.session_id, thinking_level=ThinkingLevel.THINKING_LEVEL_HIGH),
            update_mask={"paths": ["thinking_level"]},
            labels=[EntryLabel(entry_id=tree.ids[marked["id"]], label=marked["text"])],
        )
    )
    return tree


@pytest.mark.parametrize("at", ["e10", "e8", ""])
async def test_a_fork_is_whole_wherever_it_is_made(source: Tree, at: str) -> None:
    """C26: every parent exists in the copy, there is one root, labels and settings come along."""
    copy = await fork(source, source.ids[at] if at else "")
    ids = {entry.entry_id for entry in copy.entries}
    assert [entry.parent_entry_id for entry in copy.entries if entry.parent_entry_id not in ids] == [""]
    assert not ids & set(source.ids.values())
    assert [entry.label for entry in copy.entries if entry.label] == ["marked here"]
    assert copy.session.thinking_level == ThinkingLevel.THINKING_LEVEL_HIGH
    context = FORK["expect"]["fork_at_leaf_context_equals_source_context"]
    expected = context if at != "e8" else ["q1", "call k1", "r1", "q2", "call k2", "r2"]
    assert copy.words == expected
    assert ("abandoned branch, written last" in {u.user.text for u in copy.of("user")}) == (not at)


@pytest.mark.parametrize("at", ["e10", ""])
async def test_a_forks_compaction_points_into_the_copy_and_its_leaf_is_the_sources(source: Tree, at: str) -> None:
    """C26: first_kept points to the copy of e6, and a whole-tree fork stands on the copy of e10."""
    copy = await fork(source, source.ids[at] if at else "")
    by_id = {entry.entry_id: entry for entry in copy.entries}
    (compaction,) = copy.of("compaction")
    assert by_id[compaction.compaction.first_kept_entry_id].user.text == "q2"
    assert by_id[copy.session.leaf_entry_id].user.text == "q3"
    assert words(await path_of(source.store, source.turn.session_id)) == copy.words
