"""From a policy to what its worker's sandbox must allow, and no more."""

from __future__ import annotations

from netaclaw.tool.v1.tool_pb2 import SandboxMode, ToolPolicy
from netaclaw_runner.sandbox import options
from netaclaw_runner.sandbox.options import LaunchOptions

_MODES: dict[int, options.SandboxMode] = {
    SandboxMode.SANDBOX_MODE_REQUIRED: "required",
    SandboxMode.SANDBOX_MODE_OFF: "off",
}


def task_options(policy: ToolPolicy) -> LaunchOptions:
    """A task's worker reads; it writes only by the commands that policy lets it run."""
    return LaunchOptions(_mode(policy), writable=policy.shell and not policy.read_only, shell=policy.shell)


def host_options(policy: ToolPolicy) -> LaunchOptions:
    """A tool host writes for the main agent and for proxied calls, unless policy is read-only."""
    return LaunchOptions(_mode(policy), writable=not policy.read_only, shell=policy.shell)


def _mode(policy: ToolPolicy) -> options.SandboxMode:
    return _MODES.get(policy.sandbox, "best_effort")
