"""SessionService: snapshots in bounded pages, and nothing of another owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import session_service_pb2 as p
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import OWNER, Store, Turn, entry_write, metadata, refused, text

BOB = metadata("bob")


async def test_a_session_is_read_as_it_stands(store: Store) -> None:
    turn = await store.new_turn()
    response = await store.sessions.GetSession(p.GetSessionRequest(session_id=turn.session_id), metadata=metadata())
    assert response.session == turn.begun.session


async def test_an_open_question_asks_for_attention(store: Store) -> None:
    turn = await store.new_turn()
    question = e.Entry(
        entry_id=new_id(),
        parent_entry_id=turn.anchor_id,
        kind=e.ENTRY_KIND_CLARIFY,
        clarify=e.ClarifyBody(request_id="q", state=e.CLARIFY_STATE_OPEN),
    )
    request = p.GetSessionRequest(session_id=turn.session_id)
    await turn.append(entry_write(question))
    assert (await store.sessions.GetSession(request, metadata=metadata())).session.needs_attention
    question.clarify.state = e.CLARIFY_STATE_ANSWERED
    await turn.append(entry_write(question))
    assert not (await store.sessions.GetSession(request, metadata=metadata())).session.needs_attention


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.GetSession(p.GetSessionRequest(session_id=i), metadata=BOB),
        lambda x, i: x.GetSessionTree(p.GetSessionTreeRequest(session_id=i), metadata=BOB),
        lambda x, i: x.ListMessages(p.ListMessagesRequest(session_id=i), metadata=BOB),
        lambda x, i: x.ReadContent(p.ReadContentRequest(session_id=i, content_id=new_id()), metadata=BOB),
        lambda x, i: x.ListSubagentEntries(p.ListSubagentEntriesRequest(session_id=i, task_id=new_id()), metadata=BOB),
        lambda x, i: x.GetUsage(p.GetUsageRequest(session_id=i), metadata=BOB),
    ],
)
async def test_another_owners_session_is_not_found(store: Store, call: Callable[[Any, str], Awaitable[object]]) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await call(store.sessions, turn.session_id)


async def test_a_call_without_an_identity_is_unauthenticated(store: Store) -> None:
    async with refused(Reason.REASON_UNAUTHENTICATED):
        await store.sessions.ListSessions(p.ListSessionsRequest())


async def test_sessions_come_last_changed_first_in_pages(store: Store) -> None:
    turns = [await store.new_turn() for _ in range(5)]
    await turns[1].append(entry_write(turns[1].assistant(text("again"))))
    await store.new_turn(owner_id="bob")
    found: list[str] = []
    request = p.ListSessionsRequest(page_size=2)
    while True:
        page = await store.sessions.ListSessions(request, metadata=metadata())
        found += [session.session_id for session in page.sessions]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert found == [turns[n].session_id for n in (1, 4, 3, 2, 0)]


async def test_a_session_that_changes_while_pages_are_read_is_not_skipped(store: Store) -> None:
    turns = [await store.new_turn() for _ in range(6)]
    for turn in turns:
        await turn.finish()
    request = p.ListSessionsRequest(page_size=2)
    pages = []
    for changed in (turns[0], turns[1], None, None, None):
        page = await store.sessions.ListSessions(request, metadata=metadata())
        pages.append([session.session_id for session in page.sessions])
        if changed is not None:
            await store.begin(changed.session_id)
        request.page_token = page.next_page_token
        if not request.page_token:
            break
    assert not request.page_token
    assert {session_id for page in pages for session_id in page} == {turn.session_id for turn in turns}


async def test_a_search_finds_words_in_titles_and_messages_literally(store: Store) -> None:
    named = await store.new_turn(content="Plan 100% of it")
    answered = await store.new_turn(content="other")
    await answered.append(entry_write(answered.assistant(text("the Answer_x is here"))))

    async def search(query: str, owner: str = OWNER) -> list[str]:
        page = await store.sessions.ListSessions(p.ListSessionsRequest(query=query), metadata=metadata(owner))
        return [session.session_id for session in page.sessions]

    assert await search("100%") == [named.session_id]
    assert await search("answer_X") == [answered.session_id]
    assert await search("answerYx") == []
    assert await search("%") == [named.session_id]
    assert await search("100%", "bob") == []


async def test_the_tree_comes_in_order_and_in_pages(store: Store) -> None:
    turn = await store.new_turn()
    await turn.finish()
    for _ in range(4):
        turn = Turn(store, await store.begin(turn.session_id))
        await turn.finish()
    whole = await store.tree(turn.session_id)
    assert len(whole) == 10
    assert await store.tree(turn.session_id, page_size=3) == whole
    assert [entry.parent_entry_id for entry in whole[1:]] == [entry.entry_id for entry in whole[:-1]]


async def test_no_page_exceeds_one_mebibyte(store: Store) -> None:
    turn = await store.new_turn()
    for _ in range(8):
        entry = e.Entry(entry_id=new_id(), parent_entry_id=turn.anchor_id, kind=e.ENTRY_KIND_ASSISTANT)
        entry.assistant.parts.append(text("x" * 300_000))
        await turn.append(entry_write(entry))
    result = e.Entry(entry_id=new_id(), parent_entry_id=turn.anchor_id, kind=e.ENTRY_KIND_SUBAGENT_RESULT)
    for _ in range(150):
        task_id = new_id()
        task = s.SubagentTask(task_id=task_id, state=s.SUBAGENT_TASK_STATE_COMPLETED)
        result.subagent_result.batch.items.append(task)
        result.subagent_result.process_events.add(task_id=task_id, type="tool_call", call_id="c", content="y" * 4096)
        result.subagent_result.final_results.add(task=task, final_output="z" * 1000)
    await turn.append(entry_write(result))
    tree = await store.tree(turn.session_id)  # checks each page's size
    assert len(tree) == 11
    assert tree[-1].subagent_projection.diagnostics
    messages = await store.sessions.ListMessages(p.ListMessagesRequest(session_id=turn.session_id), metadata=metadata())
    assert messages.ByteSize() <= 1024 * 1024


@pytest.mark.parametrize("token", ["x", "W1tdXQ==", "bnVsbA=="])
async def test_a_bad_page_token_is_an_invalid_argument(store: Store, token: str) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await store.sessions.GetSessionTree(
            p.GetSessionTreeRequest(session_id=turn.session_id, page_token=token), metadata=metadata()
        )
    assert errors[0].violations[0][0] == "page_token"
    assert errors[0].code is grpc.StatusCode.INVALID_ARGUMENT


async def test_messages_are_the_path_without_attachments(store: Store) -> None:
    first = await store.new_turn()
    await first.append(entry_write(first.batch(entry_id=new_id())))
    await first.finish()
    second = Turn(store, await store.begin(first.session_id))
    await second.finish()
    branch = Turn(store, await store.begin(first.session_id, leaf_entry_id=first.anchor_id))
    await branch.finish()

    async def listed(**fields: Any) -> list[str]:
        ids: list[str] = []
        request = p.ListMessagesRequest(session_id=first.session_id, page_size=3, **fields)
        while True:
            page = await store.sessions.ListMessages(request, metadata=metadata())
            ids += [entry.entry_id for entry in page.entries]
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return ids

    trunk = [first.user_id, first.anchor_id]
    assert await listed() == [*trunk, branch.user_id, branch.anchor_id]
    assert await listed(leaf_entry_id=second.anchor_id) == [*trunk, second.user_id, second.anchor_id]
    async with refused(Reason.REASON_ENTRY_NOT_FOUND):
        await listed(leaf_entry_id=new_id())


async def test_compacted_messages_start_with_the_compaction_and_what_it_kept(store: Store) -> None:
    first = await store.new_turn()
    await first.finish()
    second = Turn(store, await store.begin(first.session_id))
    compaction = e.Entry(entry_id=new_id(), parent_entry_id=second.anchor_id, kind=e.ENTRY_KIND_COMPACTION)
    compaction.compaction.first_kept_entry_id = second.user_id
    leaf = j.LeafWrite(leaf_entry_id=compaction.entry_id, expected_leaf_entry_id=second.anchor_id)
    await second.finish(entry_write(compaction), j.Write(leaf=leaf))
    page = await store.sessions.ListMessages(
        p.ListMessagesRequest(session_id=first.session_id, compacted=True), metadata=metadata()
    )
    assert [entry.entry_id for entry in page.entries] == [compaction.entry_id, second.user_id, second.anchor_id]


async def test_large_content_is_read_in_ranges_of_whole_characters(store: Store) -> None:
    turn = await store.new_turn()
    content_id = new_id()
    words = "aé漢🙂" * 50_000
    for start in range(0, len(words), 60_000):
        part = words[start : start + 60_000]
        write = j.ContentWrite(content_id=content_id, entry_id=turn.anchor_id, text=part)
        await turn.append(j.Write(content=write))
    whole = words.encode()
    read = b""
    while len(read) < len(whole):
        request = p.ReadContentRequest(
            session_id=turn.session_id, content_id=content_id, offset=len(read), limit_bytes=99_998
        )
        chunk = (await store.sessions.ReadContent(request, metadata=metadata())).chunk
        chunk.data.decode()
        assert (chunk.offset, chunk.size_bytes) == (len(read), len(whole))
        read += chunk.data
    assert read == whole
    for request.offset in (len(whole) + 5, 2**63 - 1):
        assert (await store.sessions.ReadContent(request, metadata=metadata())).chunk.data == b""
    request.content_id = new_id()
    async with refused(Reason.REASON_CONTENT_NOT_FOUND):
        await store.sessions.ReadContent(request, metadata=metadata())


async def test_a_childs_transcript_comes_in_order_and_in_pages(store: Store) -> None:
    turn = await store.new_turn()
    task = s.SubagentTask(task_id=new_id(), state=s.SUBAGENT_TASK_STATE_RUNNING, name="child")
    writes = [
        j.Write(subagent_entry=j.SubagentEntryWrite(task_id=task.task_id, n=n, message=e.Message(parts=[text(str(n))])))
        for n in range(5)
    ]
    row = j.SubagentTaskWrite(task=task, parent_entry_id=turn.anchor_id, batch_entry_id=new_id())
    await turn.append(j.Write(subagent_task=row), *writes)
    request = p.ListSubagentEntriesRequest(session_id=turn.session_id, task_id=task.task_id, page_size=2)
    numbers: list[int] = []
    while True:
        page = await store.sessions.ListSubagentEntries(request, metadata=metadata())
        assert page.task == task
        numbers += [entry.n for entry in page.entries]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert numbers == [0, 1, 2, 3, 4]
    request.page_token = ""
    request.task_id = new_id()
    async with refused(Reason.REASON_TASK_NOT_FOUND):
        await store.sessions.ListSubagentEntries(request, metadata=metadata())


async def test_usage_adds_up_model_calls_and_subagents(store: Store) -> None:
    turns = [await store.new_turn(), await store.new_turn()]
    for turn in turns:
        entry = turn.assistant(text("x"))
        entry.assistant.usage.input_tokens = 10
        entry.assistant.usage.model_calls = 1
        task = s.SubagentTask(task_id=new_id(), state=s.SUBAGENT_TASK_STATE_RUNNING)
        task.usage.input_tokens = 5
        row = j.SubagentTaskWrite(task=task, parent_entry_id=turn.anchor_id, batch_entry_id=new_id())
        await turn.append(entry_write(entry), j.Write(subagent_task=row))
    one = await store.sessions.GetUsage(p.GetUsageRequest(session_id=turns[0].session_id), metadata=metadata())
    assert (one.total.input_tokens, one.total.model_calls, one.subagents.input_tokens) == (15, 1, 5)
    every = await store.sessions.GetUsage(p.GetUsageRequest(), metadata=metadata())
    assert (every.total.input_tokens, every.subagents.input_tokens) == (30, 10)


async def test_usage_is_kept_in_every_field(store: Store) -> None:
    turn = await store.new_turn()
    entry = turn.assistant(text("x"))
    for number, name in enumerate(Usage.DESCRIPTOR.fields_by_name, 1):
        setattr(entry.assistant.usage, name, number)
    await turn.append(entry_write(entry))
    answer = await store.sessions.GetUsage(p.GetUsageRequest(session_id=turn.session_id), metadata=metadata())
    assert answer.total == entry.assistant.usage


async def test_workspaces_are_named_in_order(store: Store) -> None:
    response = await store.sessions.ListWorkspaces(p.ListWorkspacesRequest(), metadata=metadata())
    assert [(each.name, each.is_default) for each in response.workspaces] == [("default", True), ("project", False)]
    first = await store.sessions.ListWorkspaces(p.ListWorkspacesRequest(page_size=1), metadata=metadata())
    second = await store.sessions.ListWorkspaces(
        p.ListWorkspacesRequest(page_size=1, page_token=first.next_page_token), metadata=metadata()
    )
    assert [each.name for each in (*first.workspaces, *second.workspaces)] == ["default", "project"]
    assert second.next_page_token == ""
