"""What children may not do however they try: delegate, go on for ever, or say too much."""

from __future__ import annotations

from pathlib import Path

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.chat.v1.event_pb2 import TurnOutcome
from netaclaw.session.v1.session_service_pb2 import GetSubagentResultRequest
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text
from tests.scenarios.reading import state_name
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_tools_shell import Request, delegate, follow, results_of, session_of, shell


async def test_a_child_that_delegates_is_refused_at_once(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    """C13: two children each call a delegate tool while their own call holds the places; one does so in a loop."""

    def child(request: Request) -> Reply:
        told = results_of(request)
        loops = "loop" in request["messages"][1]["content"]
        if told and (not loops or len(told) > 4):
            return Reply([Text(f"I was told: {told[-1]}")])
        return Reply([delegate("deeper") if loops else Call("delegate_task", '{"goal": "deeper"}')])

    model_server.rule = follow([Reply([delegate("once", "loop")]), Reply([Text("done")])], child)
    settings = {
        "NETACLAW_OPENAI_BASE_URL": model_server.base_url,
        "NETACLAW_SUBAGENT_MAX_CONCURRENT": "2",
        "NETACLAW_RUNNER_MAX_WORKERS": "2",
    }
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        rows = await suite.rows("subagent_session", "sort_order")

    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert [row["status"] for row in rows] == ["completed", "completed"]
    for task in answer.subagent_batches[0].items:
        assert "A subagent cannot delegate." in task.summary


async def test_a_child_at_its_step_limit_is_partial_with_its_text(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C15: never completed; the parent gets exactly one result, and none of the child's own messages."""

    def child(request: Request) -> Reply:
        return Reply([Text(f"step {len(results_of(request)) + 1} done. "), Call("list_files", "{}")])

    model_server.rule = follow([Reply([delegate("walk")]), Reply([Text("done")])], child)
    settings = {"NETACLAW_OPENAI_BASE_URL": model_server.base_url, "NETACLAW_SUBAGENT_MAX_TOOL_ROUNDS": "3"}
    async with open_suite("in_process", **settings) as suite, suite.client() as client:
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))

    [task] = answer.subagent_batches[0].items
    assert (state_name(task), task.error) == ("PARTIAL", "stopped after 3 model calls")
    assert task.partial_text.strip() == "step 3 done."
    last = model_server.requests[-1].body["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "tool"]
    assert "[PARTIAL]" in last[-1]["content"]
    warned = [
        m["content"] for request in model_server.requests for m in request.body["messages"] if m["role"] == "user"
    ]
    assert any("one model call is left" in text for text in warned)


async def test_five_mebibytes_of_output_are_stored_cut_and_read_back(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """C35: a worker tool returns 5 MiB of text; history and events are read again afterwards."""
    command = "head -c 5242880 /dev/zero | tr '\\0' x; echo; echo the end"

    def child(request: Request) -> Reply:
        return Reply([Text("said")] if results_of(request) else [shell(command)])

    model_server.rule = follow([Reply([delegate("shout")]), Reply([shell(command)]), Reply([Text("done")])], child)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, shell_enabled=True)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        pages, events = await suite.tree(client, session_id), await suite.events(session_id)

    assert answer.outcome == TurnOutcome.TURN_OUTCOME_COMPLETED
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert max(page.ByteSize() for page in pages) < 4 * 1024 * 1024
    told = [text for request in model_server.requests for text in results_of(request.body) if "the end" in text]
    assert told
    for text in told:
        assert "of 5242889 bytes cut here" in text
        assert text.endswith("the end\n# exit code 0")


async def test_a_child_that_says_or_reads_very_much_ends_well_and_so_does_its_parent(
    open_suite: OpenSuite, model_server: FakeOpenAI, workspace: Path
) -> None:
    (workspace / "page.txt").write_text("a line of text\n" * 400)

    def child(request: Request) -> Reply:
        if "talk" in request["messages"][1]["content"]:
            return Reply([Text("\n" + "x" * 300_000)], finish_reason="length")
        if len(results_of(request)) < 190:
            return Reply([Call("read_file", '{"path": "page.txt"}')] * 95)
        return Reply([Text("y" * 200_000)])

    model_server.rule = follow([Reply([delegate("talk", "read")]), Reply([Text("done")])], child)
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await suite.new_session(client)
        answer = await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="go"))
        talked, read = answer.subagent_batches[0].items
        asked = GetSubagentResultRequest(session_id=session_id, task_id=read.task_id)
        left = (await client.sessions.GetSubagentResult(asked)).result
    assert (answer.outcome, answer.final_content) == (TurnOutcome.TURN_OUTCOME_COMPLETED, "done")
    assert [state_name(task) for task in (talked, read)] == ["PARTIAL", "COMPLETED"]
    assert left.final_output == "y" * 200_000
    assert len(left.tool_results) == 190
