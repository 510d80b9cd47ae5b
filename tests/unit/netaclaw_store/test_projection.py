"""What a card shows: a pure function of the entry, total and deterministic."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from netaclaw.session.v1 import entry_pb2 as e
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.tool.v1.tool_pb2 import TOOL_ROUTE_MAIN_PROCESS_PROXY, TOOL_ROUTE_WORKER_LOCAL
from netaclaw_store.projection import MAX_ENTRY_BYTES, project

DONE = s.SUBAGENT_TASK_STATE_COMPLETED
RUNNING = s.SUBAGENT_TASK_STATE_RUNNING


def _event(task_id: str, type_: str, call_id: str = "", **fields: Any) -> s.ProcessEvent:
    return s.ProcessEvent(task_id=task_id, type=type_, call_id=call_id, **fields)


def _tasks(*ids: str, state: s.SubagentTaskState = DONE) -> list[s.SubagentTask]:
    return [s.SubagentTask(task_id=each, name=each.upper(), sort_order=n, state=state) for n, each in enumerate(ids)]


def _result(tasks: list[s.SubagentTask], *events: s.ProcessEvent, **fields: Any) -> s.SubagentProjection:
    body = s.SubagentResultBody(process_events=events, **fields)
    body.batch.items.extend(tasks)
    if "final_results" not in fields:
        body.final_results.extend(s.SubagentFinalResult(task=task, final_output=task.name) for task in tasks)
    entry = e.Entry(entry_id="r", kind=e.ENTRY_KIND_SUBAGENT_RESULT, subagent_result=body)
    project(entry)
    return entry.subagent_projection


def test_panels_stand_in_task_order_with_their_answers_and_evidence() -> None:
    a, b = _tasks("a", "b")
    fact = s.EvidenceSummary(task_id="b", kind="file_count", value=3)
    projection = _result([b, a], evidence_summaries=[fact])
    assert [panel.task.task_id for panel in projection.task_panels] == ["a", "b"]
    assert [panel.final_output for panel in projection.task_panels] == ["A", "B"]
    assert list(projection.task_panels[1].evidence_summaries) == [fact]
    assert not projection.diagnostics


def test_a_call_and_its_result_are_one_execution_in_call_order() -> None:
    projection = _result(
        _tasks("a", "b"),
        _event("a", "run_start"),
        _event("a", "tool_call", "1", tool_name="read_file", arguments_json="{}", route=TOOL_ROUTE_WORKER_LOCAL),
        _event("b", "tool_call", "1", tool_name="search"),
        _event("a", "tool_call", "2", tool_name="list_files"),
        _event("a", "tool_result", "2", content="two"),
        _event("b", "tool_result", "1", content="of b", is_error=True),
        _event("a", "tool_result", "1", content="one"),
        _event("a", "run_end"),
    )
    first, second = projection.task_panels
    assert [(x.call_id, x.tool_name, x.content, x.completed) for x in first.tool_executions] == [
        ("1", "read_file", "one", True),
        ("2", "list_files", "two", True),
    ]
    assert [(x.content, x.is_error) for x in second.tool_executions] == [("of b", True)]
    assert [event.type for event in first.process_events] == ["run_start", "run_end"]
    assert not projection.diagnostics


def test_a_proxied_call_is_one_execution_however_often_it_is_reported() -> None:
    projection = _result(
        _tasks("a"),
        _event("a", "tool_call", "1", tool_name="write_file"),
        _event("a", "proxy_tool_call", "1", tool_name="write_file", route=TOOL_ROUTE_MAIN_PROCESS_PROXY),
        _event("a", "tool_result", "1", content="ok"),
    )
    executions = projection.task_panels[0].tool_executions
    assert [(x.route, x.content) for x in executions] == [(TOOL_ROUTE_MAIN_PROCESS_PROXY, "ok")]


def test_events_of_no_task_stand_at_the_top() -> None:
    projection = _result(_tasks("a"), _event("stranger", "tool_call", "1"), _event("", "run_start"))
    assert [event.task_id for event in projection.process_events] == ["stranger", ""]
    assert not projection.task_panels[0].process_events


def test_what_is_missing_or_does_not_match_is_said() -> None:
    a, b = _tasks("a", "b")
    projection = _result(
        [a, b],
        _event("a", "run_start", sandbox_missing=["landlock", "seccomp"]),
        _event("a", "tool_call", "1", tool_name="search"),
        _event("a", "tool_result", "9", tool_name="read_file"),
        final_results=[s.SubagentFinalResult(task=a), s.SubagentFinalResult(task=s.SubagentTask(task_id="c"))],
    )
    assert list(projection.diagnostics) == [
        "A: not in force: landlock, seccomp",
        "A: a result of read_file has no call",
        "A: the call of search has no result",
        "B: no result was recorded",
        "c: a result of a task that is not in the batch",
    ]
    assert [event.call_id for event in projection.task_panels[0].process_events] == ["", "9"]


def test_a_running_task_may_have_calls_without_results() -> None:
    body = s.SubagentBatchBody(events=[_event("a", "tool_call", "1")])
    body.batch.items.extend(_tasks("a", state=RUNNING))
    entry = e.Entry(kind=e.ENTRY_KIND_SUBAGENT_BATCH, subagent_batch=body)
    project(entry)
    assert not entry.subagent_projection.diagnostics
    assert not entry.subagent_projection.task_panels[0].tool_executions[0].completed


def test_a_result_without_a_batch_is_shown_from_its_final_results() -> None:
    projection = _result([], final_results=[s.SubagentFinalResult(task=_tasks("a")[0], final_output="x")])
    assert [panel.final_output for panel in projection.task_panels] == ["x"]
    assert not projection.diagnostics


def test_other_entries_have_no_projection() -> None:
    entry = e.Entry(kind=e.ENTRY_KIND_USER, user=e.UserBody(text="x"))
    entry.subagent_projection.diagnostics.append("stale")
    project(entry)
    assert not entry.HasField("subagent_projection")


def test_a_projection_that_does_not_fit_is_shortened_and_says_so() -> None:
    events = [_event("a", "tool_call", str(n), content="", arguments_json="x" * 4096) for n in range(150)]
    body = s.SubagentResultBody(process_events=events)
    body.batch.items.extend(_tasks("a"))
    body.final_results.add(task=_tasks("a")[0])
    entry = e.Entry(kind=e.ENTRY_KIND_SUBAGENT_RESULT, subagent_result=body)
    project(entry)
    assert entry.ByteSize() <= MAX_ENTRY_BYTES
    assert any(line.startswith("shortened") for line in entry.subagent_projection.diagnostics)
    assert len(entry.subagent_projection.task_panels[0].tool_executions) == 150


_names = st.sampled_from(["", "a", "b", "c"])
_events = st.builds(
    s.ProcessEvent,
    task_id=_names,
    type=st.sampled_from(["tool_call", "tool_result", "proxy_tool_call", "run_start", "run_error", "new", ""]),
    call_id=_names,
    tool_name=_names,
    content=st.text(max_size=5),
)
_task_lists = st.lists(
    st.builds(
        s.SubagentTask,
        task_id=_names,
        sort_order=st.integers(-1, 3),
        state=st.sampled_from(s.SubagentTaskState.values()),
    ),
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(_task_lists, st.lists(_events, max_size=12), _task_lists)
def test_odd_input_never_crashes_nor_loses_an_event(
    tasks: list[s.SubagentTask], events: list[s.ProcessEvent], finals: list[s.SubagentTask]
) -> None:
    results = [s.SubagentFinalResult(task=task) for task in finals]
    projection = _result(tasks, *events, final_results=results)
    assert projection == _result(tasks, *events, final_results=results)
    shown = len(projection.process_events)
    for panel in projection.task_panels:
        shown += len(panel.process_events) + len(panel.tool_executions)
        shown += sum(execution.completed for execution in panel.tool_executions)
    repeated = sum(event.type in ("tool_call", "proxy_tool_call") for event in events)
    assert len(events) - repeated <= shown <= len(events)
