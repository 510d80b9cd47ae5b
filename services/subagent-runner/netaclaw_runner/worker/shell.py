"""The shell tool's handler in a worker."""

from __future__ import annotations

import os
from collections.abc import Callable

from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolResult
from netaclaw.subagent.v1.envelope_pb2 import ToolOutput
from netaclaw_agent.tool import Handler
from netaclaw_agent.tools.shell import RUN_SHELL, command_result, parse_command
from netaclaw_agent.tools.workspace import Workspace
from netaclaw_runner.worker.attention import Attention
from netaclaw_runner.worker.command import run_command
from netaclaw_runner.worker.offspring import Offspring


def shell_handlers(
    workspace: Workspace, offspring: Offspring, attention: Attention, send: Callable[[ToolOutput], None]
) -> dict[str, Handler]:
    """The handler of run_shell. It blocks, sends the output as it comes, and heeds the runner meanwhile."""

    async def run_shell(call: ToolCallPart) -> ToolResult:
        asked = parse_command(call.arguments_json)
        folder = workspace.open_folder(asked.cwd)
        try:
            end = run_command(
                asked.command,
                folder,
                timeout_s=asked.timeout_s,
                attention=attention,
                say=lambda text: send(ToolOutput(call_id=call.call_id, text=text)),
                offspring=offspring,
            )
        finally:
            os.close(folder)
        return command_result(end)

    return {RUN_SHELL: run_shell}
