"""The shell tool: its manifest, its arguments, and what a model reads of a command. A worker runs it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from netaclaw.session.v1.entry_pb2 import ToolResult
from netaclaw.tool.v1.tool_pb2 import ToolEffect, ToolManifest
from netaclaw_agent.tools.arguments import Arguments
from netaclaw_agent.tools.results import text_result

RUN_SHELL: Final = "run_shell"
FAMILY: Final = "shell"

MAX_TIMEOUT_S = 600
DEFAULT_TIMEOUT_S = 120
MAX_COMMAND_BYTES = 64 * 1024
KEPT_BYTES = 63 * 1024
"""Most bytes of output in a result: with the last lines it fits into a tool call part."""

EXIT_LINE = "# exit code "
"""How the last line begins when the command has ended by itself; its code follows, 128 + n for signal n."""

_RUN: dict[str, dict[str, Any]] = {
    "command": {"type": "string", "description": "The command line, for bash."},
    "timeout_s": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_TIMEOUT_S,
        "default": DEFAULT_TIMEOUT_S,
        "description": "Seconds after which the command and all that it started are stopped.",
    },
    "cwd": {"type": "string", "description": "Folder to run in, relative to the workspace. Default: the workspace."},
}

SHELL_TOOLS: tuple[ToolManifest, ...] = (
    ToolManifest(
        tool_name=RUN_SHELL,
        description=(
            "Run a command line in the workspace, with output and errors together and its exit code in the last line. "
            "There is no input and no network. Processes that it leaves in the background end with it. Of long output "
            "the beginning and the end are shown."
        ),
        parameters_json=json.dumps(
            {"type": "object", "properties": _RUN, "required": ["command"], "additionalProperties": False}
        ),
        effect=ToolEffect.TOOL_EFFECT_EFFECTFUL,
        needs_workspace=True,
        needs_shell=True,
        family=FAMILY,
    ),
)


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A checked call."""

    command: str
    timeout_s: int
    cwd: str
    """Relative to the workspace; not looked at yet."""


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended."""

    output: str
    exit_code: int
    """As `wait` gives it: below 0 the number of a signal."""
    stopped_after_s: int = 0
    """Above 0: it ran out of time."""
    left_running: bool = False
    """It had left processes behind; they were ended."""
    out_of_reach: bool = False
    """Some of what it started could not be ended here; it ends with the worker."""


def parse_command(arguments_json: str) -> ShellCommand:
    """Read a call's arguments. Raises ToolError."""
    arguments = Arguments.parse(arguments_json, _RUN)
    command = arguments.text("command")
    if not command.strip():
        arguments.wrong("command", "is empty")
    if "\0" in command:
        arguments.wrong("command", "must not contain a NUL character")
    if len(command.encode()) > MAX_COMMAND_BYTES:
        arguments.wrong("command", f"is longer than {MAX_COMMAND_BYTES} bytes; write a script to a file and run that")
    timeout_s = arguments.whole("timeout_s", DEFAULT_TIMEOUT_S, low=1, high=MAX_TIMEOUT_S)
    return ShellCommand(command, timeout_s, arguments.text("cwd", "."))


def command_result(end: CommandEnd) -> ToolResult:
    """What the model reads. Any exit code is a result; only a command that was stopped is an error."""
    notes = []
    if end.out_of_reach:
        notes.append("# some processes that it started could not be ended yet; they end with this agent's process")
    elif end.left_running:
        notes.append("# processes that it had left running were ended")
    if end.stopped_after_s:
        notes.append(f"# stopped after {end.stopped_after_s} s, with all that it had started")
    else:
        notes.append(f"{EXIT_LINE}{end.exit_code if end.exit_code >= 0 else 128 - end.exit_code}")
    output = end.output if not end.output or end.output.endswith("\n") else end.output + "\n"
    return text_result(output + "\n".join(notes), is_error=end.stopped_after_s > 0)
