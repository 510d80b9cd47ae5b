"""Launching workers by forking a zygote that stands ready, confined by the sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Sequence

from netaclaw_runner.launcher import ExecLauncher, Launcher, LaunchError, SandboxReport, import_paths
from netaclaw_runner.sandbox.options import LaunchOptions, SandboxSettings
from netaclaw_runner.sandbox.report import LIMITS, REQUIRED, Report, read_line
from netaclaw_runner.zygote.handle import ZygoteHandle
from netaclaw_runner.zygote.link import ZygoteLink
from netaclaw_runner.zygote.wire import pack_options

WORKER = "netaclaw_runner.worker.bootstrap:main"

_AT_ONCE = 32
_REPORT_BYTES = 16 * 1024
_LAST_WORDS = 2000


class ZygoteLauncher:
    """A Launcher with one zygote, which is started anew when it has died. Used on the event loop's thread only."""

    def __init__(
        self,
        *,
        default: LaunchOptions | None = None,
        settings: SandboxSettings | None = None,
        entry: str = WORKER,
        paths: Sequence[str] = (),
        launch_s: float = 10.0,
    ) -> None:
        """`default` serves launches that name no options: best effort, read only. `entry` is what workers run, as
        "module:function", found on `paths` beside ours. `launch_s`: seconds within which a launch succeeds or fails.
        """
        self._default = default or LaunchOptions()
        self.predictable = entry == WORKER
        settings = settings or SandboxSettings()
        self._options = {"paths": [*import_paths(), *paths], "entry": entry, "settings": settings.to_json()}
        self._launch_s = launch_s
        self._link: ZygoteLink | None = None
        self._starting = asyncio.Lock()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._closed = False
        self._sandbox = SandboxReport((), REQUIRED)

    async def start(self) -> None:
        """Start the zygote, and learn from a first worker what workers get here. Raises LaunchError."""
        trial = LaunchOptions("off" if self._default.sandbox == "off" else "best_effort", shell=self._default.shell)
        handle = await self.launch(None, options=trial)
        report = handle.sandbox
        self._sandbox = SandboxReport(report.in_force, [name for name in report.missing if name not in LIMITS])
        handle.channel.close()
        os.close(handle.stderr_fd)
        handle.signal_tree(signal.SIGKILL)
        await handle.finish()

    async def close(self) -> None:
        """End the zygote and every worker. Returns when they are gone."""
        self._closed = True
        if self._link is not None:
            await self._link.close()

    @property
    def sandbox(self) -> SandboxReport:
        """What a worker without a workspace got at the start; what each one gets is in its own handle."""
        return self._sandbox

    @property
    def zygote_pid(self) -> int:
        """Of the process that was started; 0 when none is alive."""
        return self._link.pid if self._link is not None and self._link.alive else 0

    @property
    def border(self) -> str:
        """Where the zygote stands, see zygote/border.py. Unless it is "own", the zygote is that process's child."""
        return self._link.border if self._link is not None and self._link.alive else ""

    async def launch(self, workspace_fd: int | None, *, options: LaunchOptions | None = None) -> ZygoteHandle:
        """Start one worker and wait until it is confined. Raises LaunchError, also when `required` layers are missing.

        Cancelling it ends the worker.
        """
        async with self._at_once:
            try:
                async with asyncio.timeout(self._launch_s):
                    link = await self._living()
                    return await _launch(link, workspace_fd, options or self._default)
            except TimeoutError as error:
                raise LaunchError(f"no worker stood within {self._launch_s} s") from error
            except OSError as error:  # such as at the limit of open files
                raise LaunchError(f"a worker could not be started: {error.strerror}") from error

    async def _living(self) -> ZygoteLink:
        async with self._starting:
            if self._closed:
                raise LaunchError("the launcher is closed")
            if self._link is not None and not self._link.alive:
                await self._link.close()
                self._link = None
            if self._link is None:
                self._link = await ZygoteLink.start(self._options)
            return self._link


async def _launch(link: ZygoteLink, workspace_fd: int | None, options: LaunchOptions) -> ZygoteHandle:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        stderr_read, stderr_write = os.pipe()
    except OSError:
        ours.close()
        theirs.close()
        raise
    handle = None
    try:
        try:
            fds = [theirs.fileno(), stderr_write] + ([] if workspace_fd is None else [workspace_fd])
            answer = link.launch(pack_options(options, workspace=workspace_fd is not None), fds)
        finally:
            theirs.close()
            os.close(stderr_write)
        handle = await _taken(answer)
        report = await _first_line(ours, stderr_read)
        handle.confirm(ours, stderr_read, SandboxReport(report.in_force, report.missing))
    except BaseException:
        ours.close()
        os.close(stderr_read)
        if handle is not None:
            handle.signal_tree(signal.SIGKILL)
            handle.release()
        raise
    return handle


async def _taken(answer: asyncio.Future[ZygoteHandle]) -> ZygoteHandle:
    """The worker that the zygote answers with. Where it comes with the cancellation of its launch, it is ended."""
    try:
        return await answer
    except asyncio.CancelledError:
        if not answer.cancelled() and answer.exception() is None:
            handle = answer.result()
            handle.signal_tree(signal.SIGKILL)
            handle.release()
        raise


async def _first_line(channel: socket.socket, stderr_fd: int) -> Report:
    """The worker's report, the only thing that it writes before it is spoken to."""
    loop = asyncio.get_running_loop()
    data = b""
    while not data.endswith(b"\n"):
        try:
            piece = await loop.sock_recv(channel, _REPORT_BYTES)
        except ConnectionResetError:
            piece = b""
        if not piece or len(data) > _REPORT_BYTES:
            raise LaunchError(f"a worker ended before it stood{_last_words(stderr_fd)}")
        data += piece
    try:
        report, refused = read_line(data)
    except ValueError as error:
        raise LaunchError("a worker's report could not be read") from error
    if refused:
        missing = ", ".join(report.lacking())
        raise LaunchError(f"policy requires a sandbox, but not in force here: {missing}")
    return report


def _last_words(stderr_fd: int) -> str:
    os.set_blocking(stderr_fd, False)
    with contextlib.suppress(OSError):
        lines = os.read(stderr_fd, 64 * 1024).decode("utf-8", "replace").strip().splitlines()
        if lines:
            return f": {lines[-1][:_LAST_WORDS]}"
    return ""


async def best_launcher(
    *, default: LaunchOptions | None = None, settings: SandboxSettings | None = None
) -> tuple[Launcher, ZygoteLauncher | None]:
    """The launcher for this machine, started, and the zygote's to close where there is one. Raises LaunchError.

    Elsewhere than on Linux workers are not isolated: they are processes of their own, no more, and the report says so.
    """
    if sys.platform != "linux":
        return ExecLauncher(), None
    launcher = ZygoteLauncher(default=default, settings=settings)
    try:
        await launcher.start()
    except BaseException:
        await launcher.close()
        raise
    return launcher, launcher
