"""All tool hosts of this process."""

from __future__ import annotations

import asyncio

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.subagent.v1.runner_service_pb2 import HostToolsOpen
from netaclaw_chassis.errors import NetaclawError, Violations
from netaclaw_chassis.ids import is_id, new_id
from netaclaw_runner.launcher import Launcher
from netaclaw_runner.limits import Limits
from netaclaw_runner.places import limit_reached
from netaclaw_runner.protocol import PROTOCOL_VERSION
from netaclaw_runner.supervisor import check_sandbox
from netaclaw_runner.tool_host import ToolHost
from netaclaw_runner.workspaces import Workspaces


class ToolHosts:
    """Makes hosts and closes them; they are counted apart from runs, so that a full house of runs can still write."""

    def __init__(self, launcher: Launcher, workspaces: Workspaces, *, limits: Limits, max_hosts: int) -> None:
        self._launcher = launcher
        self._workspaces = workspaces
        self._limits = limits
        self._max_hosts = max_hosts
        self._hosts: set[ToolHost] = set()
        self._closing: dict[ToolHost, asyncio.Task[None]] = {}
        self._stopping = False

    @property
    def count(self) -> int:
        """Hosts in use."""
        return sum(not host.given_up for host in self._hosts)

    def make(self, opening: HostToolsOpen) -> ToolHost:
        """A host, not yet opened. Raises INVALID_FIELD, LIMIT_REACHED, SANDBOX_UNAVAILABLE, WORKSPACE_NOT_FOUND and
        SHUTTING_DOWN."""
        _check(opening)
        if self._stopping:
            raise NetaclawError(Reason.REASON_SHUTTING_DOWN, "the runner is stopping")
        self._make_room()
        policy = opening.host.policy
        check_sandbox(policy.sandbox, self._launcher.sandbox)
        workspace_fd = self._workspaces.open(policy.workspace, opening.owner_id) if policy.workspace else None
        host = ToolHost(new_id(), opening, self._launcher, workspace_fd, limits=self._limits)
        self._hosts.add(host)
        return host

    def _make_room(self) -> None:
        """Where the house is full, the host goes whose last call is longest ago. Raises LIMIT_REACHED when all work."""
        if self.count < self._max_hosts:
            return
        idle = [host for host in self._hosts if host.idle and not host.given_up]
        if not idle:
            raise limit_reached("max_tool_hosts", self._max_hosts)
        min(idle, key=lambda host: host.used_at).give_up()

    async def close(self, host: ToolHost) -> None:
        """Close a host; answers when nothing of it is alive. Idempotent, and goes on when the caller is cancelled."""
        if host in self._hosts:
            self._hosts.discard(host)
            closing = asyncio.create_task(host.close())
            self._closing[host] = closing
            closing.add_done_callback(lambda _: self._closing.pop(host, None))
        if host in self._closing:
            await asyncio.shield(self._closing[host])

    async def stop(self) -> None:
        """Take no new host, close all others, and wait for those that are closing."""
        self._stopping = True
        await asyncio.gather(*(self.close(host) for host in [*self._hosts, *self._closing]))


def _check(opening: HostToolsOpen) -> None:
    wrong = Violations()
    wrong.check(is_id(opening.session_id), "session_id", "must be a UUID")
    wrong.check(
        opening.host.protocol_version == PROTOCOL_VERSION, "host.protocol_version", f"must be {PROTOCOL_VERSION}"
    )
    wrong.raise_if_any()
