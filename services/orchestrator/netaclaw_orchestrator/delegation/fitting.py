"""What a task leaves behind, and what a batch begins with, in the one message in which it is journaled."""

from __future__ import annotations

from collections.abc import Sequence

from netaclaw.session.v1.subagent_pb2 import SubagentFinalResult, SubagentTask
from netaclaw.store.v1.journal_service_pb2 import Write
from netaclaw_agent.tool import ToolError
from netaclaw_agent.tools.results import cut_middle

MAX_BYTES = 960 * 1024
"""The journal takes 1 MiB at once."""
_ANSWER_BYTES = 256 * 1024
_SIDE_BYTES = 16 * 1024
"""Of an error, and of the answer as the model wrote it: the answer itself stands beside them."""
_ROOM_OF_A_RESULT = 512
"""A normalised tool result without its preview, and the seam in a text that was cut."""


def fit_end(task: SubagentTask, result: SubagentFinalResult) -> None:
    """Cut an ended task and its result, in place, so that together they are at most MAX_BYTES.

    Texts lose their middle; previews of tool results share what is left; of very many results the last ones stay.
    """
    task.error = cut_middle(task.error, _SIDE_BYTES)
    task.summary = cut_middle(task.summary, _ANSWER_BYTES)
    task.partial_text = cut_middle(task.partial_text, _ANSWER_BYTES)
    result.final_output = cut_middle(result.final_output, _ANSWER_BYTES)
    result.raw_final_content = cut_middle(result.raw_final_content, _SIDE_BYTES)
    del result.diagnostics[_most_that_fit(result.diagnostics, _SIDE_BYTES) :]
    previews = sum(len(each.preview.encode()) for each in result.tool_results)
    room = MAX_BYTES - task.ByteSize() - (result.ByteSize() - previews)
    if previews > room:
        each_may = max(0, room // len(result.tool_results) - _ROOM_OF_A_RESULT)
        for each in result.tool_results:
            each.preview = each.preview.encode()[:each_may].decode(errors="ignore")
    while result.tool_results and task.ByteSize() + result.ByteSize() > MAX_BYTES:
        del result.tool_results[: (len(result.tool_results) + 1) // 2]


def check_begin(writes: Sequence[Write], anchor_bytes: int) -> None:
    """Raises ToolError when a batch is larger than what can be journaled at once with its anchor."""
    size = sum(write.ByteSize() for write in writes)
    room = MAX_BYTES - anchor_bytes
    if size > room:
        raise ToolError(
            f"the tasks take {size} bytes together, but only {room} are left here; give less context, or fewer tasks "
            "at a time"
        )


def _most_that_fit(texts: Sequence[str], limit: int) -> int:
    for count, text in enumerate(texts):
        limit -= len(text.encode())
        if limit < 0:
            return count
    return len(texts)
