"""Workers in other languages: a program of its own, the protocol on its standard input and output."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from netaclaw_runner.launcher import MINIMAL_ENVIRONMENT, GroupHandle, LaunchError, SandboxReport
from netaclaw_runner.sandbox.options import LaunchOptions


class CommandLauncher:
    """A Launcher that starts a command per worker, in a process group of its own and in its workspace.

    Not confined: whoever names the command answers for it.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """`command`: the program, by path, and its arguments."""
        self._command = list(command)
        self.predictable = False

    @property
    def sandbox(self) -> SandboxReport:
        in_force = ["process", "process_group", "minimal_env", "no_inherited_fds"]
        missing = ["uid", "pid_namespace", "net_namespace", "ipc_namespace", "rlimits", "landlock", "seccomp"]
        return SandboxReport(in_force, [*missing, "pdeathsig"])

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> GroupHandle:
        ours, theirs = socket.socketpair()
        stderr_read, stderr_write = os.pipe()
        try:
            process = self._spawn(theirs.fileno(), stderr_write, workspace_fd)
        except OSError as error:
            ours.close()
            os.close(stderr_read)
            raise LaunchError(f"a worker could not be started: {error.strerror}") from error
        finally:
            theirs.close()
            os.close(stderr_write)
        return GroupHandle(process, ours, stderr_read, self.sandbox)

    def _spawn(self, channel: int, stderr: int, workspace_fd: int | None) -> subprocess.Popen[bytes]:
        # By its descriptor, for the path may lead elsewhere by now; systems without this way get no folder.
        here = f"/proc/self/fd/{workspace_fd}" if workspace_fd is not None and sys.platform == "linux" else "/"
        return subprocess.Popen(  # noqa: S603  # the operator's own command
            self._command,
            stdin=channel,
            stdout=channel,
            stderr=stderr,
            env=MINIMAL_ENVIRONMENT,
            cwd=here,
            close_fds=True,
            start_new_session=True,
        )
