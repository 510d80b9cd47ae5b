"""Lines between runner and worker: what is one, what is noise, and how bytes become lines."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.session.v1.entry_pb2 import Message, Part, TextPart
from netaclaw.session.v1.subagent_pb2 import SubagentTask, SubagentTaskState
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_runner.protocol import DOWN, MAX_LINE_BYTES, UP, Line, Noise, Overlong, Splitter, decode, encode

CASES = Path(__file__).parents[2] / "cases"
RUN = "r1"


def _line(**fields: object) -> bytes:
    return json.dumps({"runId": RUN, **fields}).encode()


def _ours(record: bytes) -> bytes:
    """A record of the case files in our vocabulary; what is not such a record stays as it is."""
    words = {b'"ready", "seq": 1': b'"run_start", "runId": "r1", "protocolVersion": 1, "pid": 9'}
    words[b'"progress", "seq": 2'] = words[b'"progress", "seq": 3'] = b'"token", "runId": "r1"'
    words[b'"tool_result", "seq": 2, "call"'] = b'"tool_result", "runId": "r1", "callId"'
    words[b'"type":"result","seq":4,"text"'] = b'"type":"run_end","runId":"r1","state":3,"finalOutput"'
    for seq in (b"3", b"5"):
        words[b'"result", "seq": ' + seq + b', "text"'] = b'"run_end", "runId": "r1", "state": 3, "finalOutput"'
    for old, new in words.items():
        record = record.replace(old, new)
    return record.replace(b'"k1", "text"', b'"k1", "content"') if b"tool_result" in record else record


def _read(data: bytes) -> tuple[list[Line], list[bytes]]:
    lines, noise = [], []
    for item in Splitter().feed(data):
        assert isinstance(item, bytes)
        try:
            lines.append(decode(item, UP))
        except Noise:
            noise.append(item)
    return lines, noise


def test_a_text_that_was_cut_inside_a_character_arrives() -> None:
    cut = json.loads(r'"🚆 east \ud83d"')  # as languages with 16-bit characters cut
    line = decode(_line(type="run_end", state=3, finalOutput=cut, diagnostics={cut: [cut]}), UP)
    assert isinstance(line.message, pb.RunEnd)
    assert line.message.final_output == "🚆 east �"


def test_a_line_above_64_kib_arrives_whole_between_its_neighbours() -> None:
    lines, noise = _read(_ours((CASES / "worker-lines-01.jsonl").read_bytes()))

    assert [line.type for line in lines] == ["run_start", "tool_result", "run_end"]
    assert isinstance(lines[1].message, pb.ToolResultLine)
    assert len(lines[1].message.content) > 65536
    assert not noise


def test_prints_glued_torn_and_foreign_lines_are_noise_and_nothing_else_is() -> None:
    lines, noise = _read(_ours((CASES / "worker-lines-02.txt").read_bytes()))

    assert [(line.type, line.run_id) for line in lines] == [("token", RUN), ("token", RUN), ("run_end", RUN)]
    texts = [line.message.text for line in lines if isinstance(line.message, pb.Token)]
    assert texts == ["half", "three quarters"]  # with a carriage return, and with a byte-order mark
    assert len(noise) == 9
    assert any(b"Loading weights" in line and b"run_start" in line for line in noise)  # glued to a progress bar


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"42",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"type":"token"}',
        b"\xff\xfe{}",
        '{"type":"token","runId":"r1","text":"x"}'.encode("utf-16"),
        b'{"type":"token","runId":"r1","text":"' + b"\xff" + b'"}',
        b'{"type":"run_start","runId":"r1","protocolVersion":NaN,"pid":1}',
        b'{"type":"run_start","runId":"r1","protocolVersion":1,"pid":' + b"9" * 5000 + b"}",
        b'{"type":"token","runId":"r1","text":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"token","runId":"r1","text":"x"',
        _line(type="task"),
        _line(type="cancel"),
        _line(type=["token"], text="x"),
        _line(type="token", runId="", text="x"),
        _line(type="token", runId=7, text="x"),
        _line(type="token", runId="r" * 500, text="x"),
        _line(type="token"),
        _line(type="token", text=None),
        _line(type="token", text=5),
        _line(type="token", text={"a": 1}),
        _line(type="tool_call", callId="c", toolName="t"),
        _line(type="run_end", finalOutput="x"),
        _line(type="run_end", finalOutput="x", state=[]),
        _line(type="model_request", requestId=True, keep=0, messages=[]),
        _line(type="model_request", requestId=2**40, keep=0, messages=[]),
        _line(type="model_request", requestId=1, keep=1.5, messages=[]),
        _line(type="model_request", requestId=1, keep=0, messages=[1]),
        _line(type="model_request", requestId=1, keep=0, messages={}),
    ],
)
def test_what_is_not_a_protocol_object_is_noise(data: bytes) -> None:
    with pytest.raises(Noise) as caught:
        decode(data, UP)
    assert "r1" not in str(caught.value)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_noise_or_a_line_and_never_a_crash(data: bytes) -> None:
    for item in Splitter().feed(data + b"\n"):
        assert isinstance(item, bytes)
        with contextlib.suppress(Noise):
            assert decode(item, UP).type in UP


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(sorted(UP)),
    st.dictionaries(st.sampled_from(["text", "callId", "state", "messages", "keep"]), json_values),
)
def test_lines_with_arbitrary_fields_are_noise_or_a_line(kind: str, fields: dict[str, object]) -> None:
    try:
        line = decode(json.dumps({"type": kind, "runId": RUN, **fields}).encode(), UP)
    except Noise:
        return
    assert (line.type, line.run_id) == (kind, RUN)


def test_a_line_of_another_run_is_valid_and_keeps_its_run() -> None:
    assert decode(_line(type="token", runId="other", text="x"), UP).run_id == "other"


def test_unknown_fields_are_ignored_and_the_last_of_doubled_keys_counts() -> None:
    line = decode(b'{"type":"token","runId":"r1","text":"a","later":{"x":1},"text":"b"}', UP)

    assert line.message == pb.Token(text="b")


MESSAGES = [
    pb.RunStart(protocol_version=1, pid=7),
    pb.ModelRequest(request_id=1),
    pb.ModelRequest(request_id=2, keep=3, messages=[Message(parts=[Part(text=TextPart(text="你好\n\u2028"))])]),
    pb.Token(),
    pb.Thinking(text="t"),
    pb.Log(message="m"),
    pb.ToolCall(call_id="c", tool_name="t", arguments_json='{"a": 1.10}'),
    pb.ToolResultLine(call_id="c"),
    pb.ToolOutput(call_id="c", text="x"),
    pb.ProxyToolCall(call_id="c", tool_name="t"),
    pb.SteerTaken(request_id="s"),
    pb.RunEnd(state=SubagentTaskState.SUBAGENT_TASK_STATE_COMPLETED, final_output="done"),
    pb.RunError(),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_a_worker_sends_reads_back_equal_and_carries_its_required_fields(message: pb.RunStart) -> None:
    data = encode(RUN, message)

    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    assert decode(data[:-1], UP) == Line(json.loads(data)["type"], RUN, message)


def test_a_task_line_is_flat_and_its_large_numbers_are_numbers() -> None:
    envelope = pb.SubagentTaskEnvelope(protocol_version=1, run_id=RUN, session_id="s", parent_entry_id="e")
    envelope.task.CopyFrom(SubagentTask(goal="g", usage=Usage(input_tokens=5)))
    envelope.agent_config.CopyFrom(Agent(name="a"))

    line = json.loads(encode(RUN, envelope))

    assert line["type"] == "task"
    assert line["runId"] == RUN
    assert line["policy"] == {}
    assert line["budget"] == {}
    assert line["task"]["usage"] == {"inputTokens": 5}
    assert decode(encode(RUN, envelope), DOWN).type == "task"


def test_no_message_has_a_field_that_the_frame_needs() -> None:
    for table in (UP, DOWN):
        for message in table.values():
            assert "type" not in message.DESCRIPTOR.fields_by_name


@given(st.lists(st.binary(max_size=20)), st.integers(1, 7))
def test_the_splitter_cuts_at_newlines_however_the_bytes_arrive(lines: list[bytes], size: int) -> None:
    data = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines) + b"tail"
    splitter = Splitter()
    found = [item for start in range(0, len(data), size) for item in splitter.feed(data[start : start + size])]

    assert found == [line.replace(b"\n", b"") for line in lines]
    assert splitter.rest() == b"tail"


def test_a_carriage_return_or_a_unicode_line_end_cuts_nothing() -> None:
    data = "a\rb\u2028c\u0085d\n".encode()

    assert Splitter().feed(data) == [data[:-1]]


def test_a_line_over_the_cap_is_named_at_once_and_reading_resumes_at_the_next_newline() -> None:
    splitter = Splitter(cap=100)

    assert splitter.feed(b'{"type":"tool_result","content":"' + b"x" * 80) == [Overlong("tool_result")]
    assert splitter.feed(b"x" * 1000) == []
    assert splitter.rest() == b""
    assert splitter.feed(b'"}\nnext\n') == [b"next"]


def test_a_line_of_exactly_the_cap_is_taken() -> None:
    assert Splitter(cap=4).feed(b"abcd\n") == [b"abcd"]
    assert Splitter(cap=4).feed(b"abcde\n") == [Overlong("")]
    assert MAX_LINE_BYTES == 8 * 1024 * 1024
