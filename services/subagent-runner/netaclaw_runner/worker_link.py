"""One worker as a run or a tool host sees it: valid lines in, messages out, and an end that is confirmed."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

from google.protobuf.message import Message

from netaclaw_runner import protocol
from netaclaw_runner.channel import Channel, StderrDrain
from netaclaw_runner.child_log import ChildLog
from netaclaw_runner.launcher import Launcher, SandboxReport, WorkerHandle
from netaclaw_runner.limits import Limits
from netaclaw_runner.protocol import Line, Noise, Overlong
from netaclaw_runner.sandbox.options import LaunchOptions

log = logging.getLogger(__name__)

_TURN_S = 0.005
"""How long lines that are there already are handled before all others of this process have their turn."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that ends a task: a line over the cap, or a valid line of another run."""

    error: str


class WorkerLink:
    """Owns a worker from launch to confirmed end."""

    def __init__(
        self,
        handle: WorkerHandle,
        channel: Channel,
        stderr: StderrDrain,
        *,
        run_id: str,
        limits: Limits,
        child_log: ChildLog,
    ) -> None:
        self._handle = handle
        self._channel = channel
        self._stderr = stderr
        self._run_id = run_id
        self._limits = limits
        self.log = child_log

    @classmethod
    async def open(
        cls,
        launcher: Launcher,
        run_id: str,
        workspace_fd: int | None,
        *,
        options: LaunchOptions,
        limits: Limits,
        child_log: ChildLog,
    ) -> WorkerLink:
        """Launch a worker. Raises LaunchError."""
        handle = await launcher.launch(workspace_fd, options=options)
        stderr = StderrDrain(handle.stderr_fd, child_log.stderr)
        channel = await Channel.open(
            handle.channel,
            line_bytes=limits.line_bytes,
            unread_bytes=limits.unread_bytes,
            unsent_bytes=limits.unsent_bytes,
        )
        return cls(handle, channel, stderr, run_id=run_id, limits=limits, child_log=child_log)

    @property
    def pid(self) -> int:
        """Its process id on this machine."""
        return self._handle.pid

    @property
    def closed(self) -> bool:
        """Whether the worker has closed its channel; nothing reaches it then."""
        return self._channel.closed

    @property
    def sandbox(self) -> SandboxReport:
        """What is in force for it."""
        return self._handle.sandbox

    def send(self, message: Message) -> bool:
        """Queue a message. False when it cannot reach the worker."""
        line = protocol.encode(self._run_id, message)
        if len(line) > self._limits.line_bytes:
            self.log.note(f"a line of {len(line)} bytes for the worker was over the cap")
            return False
        return self._channel.send(line)

    async def received(self) -> AsyncIterator[Line | Violation]:
        """Valid lines of this run, and violations, in order, until end of file. Noise goes to the child's log.

        However fast a worker writes, others have their turns in between.
        """
        loop = asyncio.get_running_loop()
        turn = loop.time()
        while (data := await self._channel.receive()) is not None:
            if loop.time() - turn > _TURN_S:
                await asyncio.sleep(0)  # receiving does not wait while there are lines
                turn = loop.time()
            if isinstance(data, Overlong):
                kind = f"{data.type} line" if data.type else "line"
                yield Violation(f"a {kind} of more than {self._limits.line_bytes} bytes was refused")
                continue
            try:
                line = protocol.decode(data, protocol.UP)
            except Noise as noise:
                self.log.noise(data, str(noise))
                continue
            yield line if line.run_id == self._run_id else Violation(f"a {line.type} line of a foreign run")
        if self._channel.truncated:
            self.log.noise(self._channel.truncated, "a line without an end")

    async def exited(self) -> int:
        """Wait for the worker's own exit."""
        return await self._handle.exited()

    async def stop(self, farewell: Message | None, *, abrupt: bool = False) -> None:
        """End the worker's whole tree and confirm it: cooperative line, SIGTERM, SIGKILL.

        Without a farewell the worker is expected to exit by itself; `abrupt` goes straight to SIGKILL. Lines must be
        received meanwhile, or the worker may wait for us. Cancelling is deferred until nothing is alive.
        """
        stopping = asyncio.create_task(self._stop(farewell, abrupt))
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await asyncio.wait([stopping])
            raise

    async def _stop(self, farewell: Message | None, abrupt: bool) -> None:
        limits = self._limits
        steps = [] if abrupt else [(0, limits.cancel_s if farewell else limits.exit_s), (signal.SIGTERM, limits.term_s)]
        if farewell is not None and not abrupt:
            self.send(farewell)
        gone = False
        for number, patience in [*steps, (signal.SIGKILL, limits.gone_s)]:
            if number:
                self.log.note(f"the worker got {signal.Signals(number).name}")
                self._handle.signal_tree(number)
            gone = await self._exits_within(patience)
            if gone:
                break
        self._channel.close()
        self._stderr.close()
        if not gone or not await self._handle.finish():
            self.log.note("a process of the worker's tree could not be ended")
            log.error("a worker's process could not be ended", extra={"pid": self.pid})

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited()
        except TimeoutError:
            return False
        return True


def describe_exit(code: int) -> str:
    """A worker's exit in words."""
    if code >= 0:
        return f"the worker exited with code {code} before it had finished"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the worker was ended by {name} before it had finished"
