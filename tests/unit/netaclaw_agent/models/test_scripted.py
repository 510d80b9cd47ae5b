"""The scripted model: plans from plain words, answers from real tool results, honest about itself."""

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import FinishReason, Message, ToolCallPart, ToolCallState, ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolManifest
from netaclaw_agent.guidance import subagent_system_prompt, subagent_user_message
from netaclaw_agent.loop import LoopEnd, LoopLimits, calls_of, run_loop, text_of, user_message, with_results
from netaclaw_agent.model import Finished, Model, ModelCall, ModelEvent, TextDelta
from netaclaw_agent.models.catalogue import ModelCatalogue, ModelSettings
from netaclaw_agent.models.scripted import DISCLOSURE, DISCLOSURE_AFTER, ScriptedModel
from netaclaw_agent.models.scripted_goals import Goal, GoalKind, Task, parse_goal
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.delegation import DELEGATION_TOOLS, parse_delegation
from netaclaw_agent.tools.files import FILE_TOOLS, file_handlers
from netaclaw_agent.tools.results import text_result
from netaclaw_agent.tools.workspace import Workspace
from tests.fakes.openai_server import FakeOpenAI

CHILD_SYSTEM = subagent_system_prompt(Agent(system_prompt="Be brief."))
ALL_TOOLS = (*FILE_TOOLS, *DELEGATION_TOOLS)


async def events_of(
    call: ModelCall, model: Model | None = None, numbers: "count[int] | None" = None
) -> list[ModelEvent]:
    counter = numbers or count(1)
    stream = (model or ScriptedModel()).stream(call, new_id=lambda: f"id-{next(counter)}")
    return [event async for event in stream]


async def message_of(
    words: str, *, tools: Sequence[ToolManifest] = ALL_TOOLS, system: str = "", after: Sequence[Message] = ()
) -> Message:
    events = await events_of(ModelCall(system=system, messages=[user_message(words), *after], tools=tools))
    assert isinstance(events[-1], Finished)
    return events[-1].message


def arguments_of(message: Message) -> list[tuple[str, object]]:
    return [(call.tool_name, json.loads(call.arguments_json)) for call in calls_of(message)]


def with_result(message: Message, content: str, *, is_error: bool = False) -> Message:
    ended = []
    for call in calls_of(message):
        part = ToolCallPart()
        part.CopyFrom(call)
        part.result.CopyFrom(ToolResult(content=content, is_error=is_error))
        ended.append(part)
    return with_results(message, ended)


class FilePort:
    """A loop's port with a model and real file tools."""

    def __init__(self, workspace: Workspace, model: Model) -> None:
        self.handlers = file_handlers(workspace)
        self.model = model
        self.numbers = count(1)
        self.asked: list[ToolCallPart] = []

    async def call_model(self, transcript: Sequence[Message]) -> Message:
        call = ModelCall(system=CHILD_SYSTEM, messages=list(transcript), tools=FILE_TOOLS)
        last = (await events_of(call, self.model, self.numbers))[-1]
        assert isinstance(last, Finished)
        return last.message

    async def run_tools(self, calls: Sequence[ToolCallPart]) -> list[ToolCallPart]:
        ended = []
        for call in calls:
            self.asked.append(call)
            part = ToolCallPart()
            part.CopyFrom(call)
            try:
                part.result.CopyFrom(await self.handlers[call.tool_name](call))
            except ToolError as error:
                part.result.CopyFrom(text_result(str(error), is_error=True))
            ended.append(part)
        return ended

    async def take_steering(self) -> list[str]:
        return []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "src" / "b.py").write_text("# TODO later\n")
    (tmp_path / "src" / "api.proto").write_text(
        "service S {\n  // Says hello.\n  // Twice.\n  rpc Hello(Q) returns (R);\n  rpc Plain(Q) returns (R);\n}\n"
    )
    (tmp_path / "README.md").write_text("# Title\n" + "words " * 50 + "\n")
    (tmp_path / "picture.bin").write_bytes(b"\0\1\2" * 10)
    return tmp_path


async def run_goal(folder: Path, goal: str, model: Model | None = None) -> tuple[LoopEnd, FilePort]:
    with Workspace.open(folder) as workspace:
        port = FilePort(workspace, model or ScriptedModel())
        end = await run_loop(port, [user_message(subagent_user_message(goal, "In parallel: x; y"))], LoopLimits())
    return end, port


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        ("count the files", Goal(GoalKind.COUNT_FILES)),
        ("Please count files under docs/.", Goal(GoalKind.COUNT_FILES, path="docs")),
        ("count all Python files in lib", Goal(GoalKind.COUNT_FILES, path="lib", pattern="*.py")),
        ("count lines per language under services/", Goal(GoalKind.COUNT_LINES, path="services")),
        ("count the lines of code in this repository", Goal(GoalKind.COUNT_LINES)),
        ("count lines", Goal(GoalKind.COUNT_LINES)),
        ("find the largest files", Goal(GoalKind.LARGEST, count=5)),
        ("find the 3 biggest files under gen", Goal(GoalKind.LARGEST, path="gen", count=3)),
        ("find the largest file", Goal(GoalKind.LARGEST, count=1)),
        ("list every RPC with its comment", Goal(GoalKind.RPCS)),
        ("list every RPC with its comment under protos/", Goal(GoalKind.RPCS, path="protos")),
        ("list all files under lib", Goal(GoalKind.LIST_FILES, path="lib")),
        ('find "def main" in cli/', Goal(GoalKind.SEARCH, path="cli", text="def main")),
        ("search for TODO", Goal(GoalKind.SEARCH, text="TODO")),
        ("search lib for async def", Goal(GoalKind.SEARCH, path="lib", text="async def")),
        ("read README.md.", Goal(GoalKind.READ, path="README.md")),
        ("write 'a\nb' to notes/x.txt", Goal(GoalKind.WRITE, path="notes/x.txt", text="a\nb")),
        ("delegate: read a.md with agent Scout.", Goal(GoalKind.DELEGATE, tasks=(Task("read a.md", "Scout"),))),
        ("委派：read a.md", Goal(GoalKind.DELEGATE, tasks=(Task("read a.md"),))),
        ("In parallel: a; b ;c", Goal(GoalKind.PARALLEL, tasks=(Task("a"), Task("b"), Task("c")))),
        ("并行：a；b", Goal(GoalKind.PARALLEL, tasks=(Task("a"), Task("b")))),
        ("Do this\nin parallel:\n- a\n- b", Goal(GoalKind.PARALLEL, tasks=(Task("a"), Task("b")))),
        ("in parallel: ;", Goal(GoalKind.PARALLEL)),
        ("count lines of Klingon", Goal(GoalKind.COUNT_LINES, path="Klingon")),
        ("how are you", Goal(GoalKind.UNKNOWN, text="how are you")),
        ("", Goal(GoalKind.UNKNOWN)),
    ],
)
def test_plain_requests_are_understood(words: str, goal: Goal) -> None:
    assert parse_goal(words) == goal


def test_a_subagents_goal_is_read_without_its_context() -> None:
    message = subagent_user_message("count the files under lib", "Goal: other\n\nin parallel: x; y")
    assert parse_goal(message) == Goal(GoalKind.COUNT_FILES, path="lib")


@given(st.text(max_size=80))
def test_any_words_give_a_goal(words: str) -> None:
    assert parse_goal(words).kind in GoalKind


async def test_a_parallel_request_becomes_one_delegate_call() -> None:
    message = await message_of("in parallel: count the files; find TODO in lib with agent a-1; read x.md")
    tasks = [{"goal": "count the files"}, {"goal": "find TODO in lib", "agentId": "a-1"}, {"goal": "read x.md"}]
    assert arguments_of(message) == [("delegate_parallel", {"tasks": tasks})]
    assert text_of(message).startswith(DISCLOSURE + "\n")
    assert message.finish_reason == FinishReason.FINISH_REASON_TOOL_CALLS
    [call] = calls_of(message)
    assert call.call_id == "id-1"
    assert call.state == ToolCallState.TOOL_CALL_STATE_PENDING
    assert [spec.goal for spec in parse_delegation(call.tool_name, call.arguments_json)] == [t["goal"] for t in tasks]


async def test_a_delegate_request_becomes_one_task() -> None:
    message = await message_of("delegate: count the files with agent Scout")
    assert arguments_of(message) == [("delegate_task", {"goal": "count the files", "agentId": "Scout"})]


@pytest.mark.parametrize("words", ["in parallel: a; b", "delegate: a", "count the files"])
async def test_a_missing_tool_is_told_in_words(words: str) -> None:
    message = await message_of(words, tools=())
    assert calls_of(message) == []
    assert "not available here" in text_of(message)


async def test_results_of_subagents_are_repeated_whole() -> None:
    asked = await message_of("in parallel: a; b")
    message = await message_of("in parallel: a; b", after=[with_result(asked, "## a\nall\n\n## b\nwell")])
    assert text_of(message).startswith(DISCLOSURE_AFTER)
    assert "## a\nall\n\n## b\nwell" in text_of(message)
    assert calls_of(message) == []


async def test_a_failed_call_is_told_in_the_answer() -> None:
    asked = await message_of("in parallel: a; b")
    message = await message_of("in parallel: a; b", after=[with_result(asked, "no such agent", is_error=True)])
    assert "delegate_parallel failed: no such agent" in text_of(message)


async def test_other_words_get_an_honest_list_of_abilities() -> None:
    message = await message_of("write me a poem about spring")
    assert text_of(message).splitlines()[0] == DISCLOSURE
    assert "in parallel:" in text_of(message)
    assert message.finish_reason == FinishReason.FINISH_REASON_STOP


async def test_a_subagent_answers_without_the_disclosure() -> None:
    message = await message_of("how are you", tools=FILE_TOOLS, system=CHILD_SYSTEM)
    assert DISCLOSURE not in text_of(message)


async def test_a_later_turn_plans_anew() -> None:
    asked = await message_of("count the files")
    history = [with_result(asked, "# 3 files, 9 bytes"), user_message("read a.md")]
    message = await message_of("count the files", after=history)
    assert arguments_of(message) == [("read_file", {"path": "a.md"})]


async def test_text_comes_in_pieces_that_make_the_message() -> None:
    events = await events_of(ModelCall(system="", messages=[user_message("hello")]))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(texts) > 3
    assert isinstance(events[-1], Finished)
    assert "".join(texts) == text_of(events[-1].message)
    usage = events[-1].message.usage
    assert usage.model_calls == 1
    assert usage.input_tokens > 0
    assert usage.output_tokens == len("".join(texts)) // 4


async def test_the_same_call_gives_the_same_events() -> None:
    call = ModelCall(system="s", messages=[user_message("in parallel: a; b")], tools=ALL_TOOLS)
    assert await events_of(call) == await events_of(call)


@pytest.mark.parametrize(
    ("goal", "parts"),
    [
        ("count the files", ["5 files in the workspace"]),
        ("count the files under src", ["3 files under src"]),
        ("count Python files", ["2 files in the workspace that match *.py"]),
        (
            "count lines per language",
            [
                "- Protocol Buffers: 6 lines in 1 file",
                "- Python: 4 lines in 2 files",
                "Total: 12 lines in 4 files.",
                "Not counted: 1 file without lines.",
            ],
        ),
        ("count Python lines under src", ["4 lines in 2 files under src that match *.py"]),
        ("find the 2 largest files", ["The 2 largest files", "1. README.md: 309 bytes", "2. src/api.proto: "]),
        ("list files under src", ["3 files under src:", "- src/a.py: 14 bytes"]),
        (
            "list every RPC with its comment",
            ["2 RPCs in 1 file", "src/api.proto", "- Hello: Says hello. Twice.", "- Plain: (no comment)"],
        ),
        ("find TODO in src", ['"TODO": 1 matching lines in 1 file under src', "src/b.py:1:# TODO later"]),
        ("find NOTHERE", ['"NOTHERE" was not found']),
        ("read src/a.py", ["src/a.py:\n\none\ntwo\nthree"]),
        ("read nope.txt", ["read_file failed: "]),
        ("count the files under ../..", ["list_files failed: "]),
    ],
)
async def test_answers_are_computed_from_real_tools(folder: Path, goal: str, parts: list[str]) -> None:
    end, port = await run_goal(folder, goal)
    for part in parts:
        assert part in end.text
    assert len(port.asked) == 1


async def test_a_file_is_written(folder: Path) -> None:
    end, _ = await run_goal(folder, "write hello world to notes/x.txt")
    assert (folder / "notes" / "x.txt").read_text() == "hello world"
    assert end.text.startswith("Done: wrote 11 bytes")


async def test_a_cut_listing_is_followed_by_one_round_of_totals(folder: Path) -> None:
    for n in range(1100):
        (folder / f"{n:04}.txt").write_text("x\n")
    end, port = await run_goal(folder, "count lines per language")
    assert "- Text: 1100 lines in 1100 files" in end.text
    assert 2 <= len(port.asked) <= 25


async def test_the_same_turns_run_through_the_openai_provider(folder: Path) -> None:
    goals = ["count lines per language", "list every RPC with its comment", "read nope.txt", "find TODO in src"]
    async with FakeOpenAI() as server:
        catalogue = ModelCatalogue(ModelSettings(openai_base_url=server.base_url))
        for goal in goals:
            plain, _ = await run_goal(folder, goal)
            streamed, _ = await run_goal(folder, goal, catalogue.get("openai"))
            assert streamed.text == plain.text
            assert streamed.tool_call_count == plain.tool_call_count
            assert plain.last is not None
            assert streamed.last is not None
            assert streamed.last.usage == plain.last.usage
        await catalogue.close()
