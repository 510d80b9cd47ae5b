"""`netaclaw chat` at a pseudo-terminal: questions, the plan, subagents, branches, turns begun elsewhere."""

from __future__ import annotations

import asyncio
import json

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from tests.fakes.openai_server import Call, FakeOpenAI, Hang, Reply, Text, Wait
from tests.scenarios.goals import Goals, Request, tasks
from tests.scenarios.reading import chat, until
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_approvals import ASK, made, writer
from tests.scenarios.test_chat_terminal import chatting, first_answer
from tests.scenarios.test_todo import FIRST, writes
from tests.scenarios.test_tools_shell import session_of

SUM_UP = "Sum up the conversation above."
WHICH = json.dumps({"call": "clarify", "question": "Which?", "choices": ["red", "blue"]})


async def test_questions_are_answered_by_number_and_in_words_and_the_plan_is_shown(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        chatting(suite, await suite.new_session(client)) as terminal,
    ):
        terminal.type(writes(FIRST))
        await terminal.until("☐ look\n  ☐ mend")
        await terminal.until("tokens in")
        terminal.type(WHICH)
        await terminal.until("? Which?\n  1  red\n  2  blue\n")
        terminal.type("2")
        await terminal.until("(answered: blue)")
        await terminal.until("tokens in")
        terminal.type(json.dumps({"call": "clarify", "question": "Where?"}))
        await terminal.until("? Where?")
        terminal.type("in the garden")
        await terminal.until("(answered: in the garden)")
        await terminal.until("tokens in")
        terminal.type(writes([]))
        await terminal.until("(the todo list is empty now)")
        await terminal.until("tokens in")
    told = [message["content"] for message in goals.main_requests[-1]["messages"] if message["role"] == "tool"]
    assert told == ["The list stands: 2 pending.", "blue", "in the garden", "The list is empty now."]


async def test_a_childs_call_is_allowed_always(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    model_server.rule = writer()
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        chatting(suite, await session_of(suite, client, approvals={"write_file": ASK})) as terminal,
    ):
        terminal.type(tasks("write", mode="clone"))
        await terminal.until('? may worker in subagent [write] call write_file {"path": "made.txt"')
        await terminal.until("1  allow\n  2  deny\n  3  always (in this session)\n")
        terminal.type("yes")
        await terminal.until("answer: must be one of allow, deny, always")
        await terminal.until("\n> ")  # the prompt comes back
        assert not made(suite)
        terminal.type("3")
        await terminal.until("(answered: always)")
        await terminal.until("✓ write: COMPLETED")
        await terminal.until("tokens in")
        assert made(suite)
        terminal.type(tasks("write", mode="clone"))
        assert "? may" not in await terminal.until("✓ write: COMPLETED")


async def test_who_comes_back_finds_the_open_question_and_answers_it(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    model_server.rule = Goals({})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id) as terminal:
            terminal.type(WHICH)
            await terminal.until("2  blue")
            terminal.type("/quit")
            await terminal.ended()
        async with chatting(suite, session_id) as terminal:
            await terminal.until('you: {"call": "clarify"')
            await terminal.until("? Which?\n  1  red\n  2  blue\n")
            terminal.type("1")
            await terminal.until("(answered: red)")
            await terminal.until("done")
            await terminal.until("tokens in")
            terminal.type("/quit")
            assert await terminal.ended() == 0


async def test_a_message_enters_the_turn_that_another_client_has_begun(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held = asyncio.Event()
    model_server.rule = Goals({}, {"wait": [Text("I wait. "), Wait(held), Text("Enough.")]})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id) as terminal:
            await until(chat(client, ChatRequest(session_id=session_id, content="wait")), "assistant_stream_delta")
            terminal.type("look at this")
            await terminal.until("(your message waits)")
            await terminal.until("I wait.")
            held.set()
            await terminal.until("Enough.")
            await terminal.until("(your message is read)")
            await terminal.until("you said look at this")


async def test_a_branch_is_left_with_its_summary_and_output_spares_the_line_being_typed(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    held, summing_up = asyncio.Event(), asyncio.Event()
    goals = Goals({}, {"wait": [Text("I wait. "), Wait(held), Text("Enough.")]})

    async def rule(request: Request) -> Reply:
        if SUM_UP in str(request["messages"][-1]["content"]) and not summing_up.is_set():
            summing_up.set()
            return Reply([Hang()])
        return await goals(request)

    model_server.rule = rule
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        async with chatting(suite, session_id) as terminal:
            terminal.type("first")
            await terminal.until("tokens in")
            terminal.type("wait")
            await terminal.until("I wait.")
            terminal.keys("half a ")
            held.set()
            await terminal.until("tokens in")
            await terminal.until("> half a ")
            terminal.type("message")
            await terminal.until("you said half a message")
            await terminal.until("tokens in")
            leaf = (await client.load(session_id)).leaf_entry_id
            terminal.type(f"/summarize {await first_answer(client, session_id)}")
            await summing_up.wait()
            terminal.interrupt()
            await terminal.until("(cancelled)")
            terminal.type("/tree")
            await terminal.until(f"* {leaf[-12:]}")
            terminal.type(f"/summarize {await first_answer(client, session_id)} the colours")
            await terminal.until("(summary of the branch that is left: you said <conversation>")
    asked = str(goals.main_requests[-1]["messages"][-1]["content"])
    assert "half a message" in asked
    assert "keep in mind: the colours" in asked
    assert "User: first" not in asked


async def test_one_subagent_is_steered_and_another_cancelled(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    held = asyncio.Event()
    look = [Reply([Wait(held), Call("list_files", "{}")]), Reply([Text("looked")])]
    goals = model_server.rule = Goals({"look": look, "stay": [Reply([Hang()])]})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
        chatting(suite, await suite.new_session(client)) as terminal,
    ):
        terminal.type(tasks("look", "stay"))
        for _ in range(2):
            await terminal.until("] RUNNING")
        terminal.type("/steer look mind the roof")
        await terminal.until("(your message waits)")
        held.set()
        await terminal.until("(your message is read)")
        await terminal.until("[look] COMPLETED")
        terminal.type("/cancel stay")
        await terminal.until("[stay] CANCELLED")
        await terminal.until("tokens in")
    assert goals.child_requests["look"][1]["messages"][-1]["content"] == "mind the roof"
