"""The launcher in this process: many launches, deaths, refusals, bounds."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_runner import protocol
from netaclaw_runner.launcher import LaunchError
from netaclaw_runner.sandbox.options import LaunchOptions
from netaclaw_runner.zygote import process_tree
from netaclaw_runner.zygote.handle import ZygoteHandle
from netaclaw_runner.zygote.launcher import ZygoteLauncher
from netaclaw_runner.zygote.link import ZygoteLink
from netaclaw_runner.zygote.main import READY
from netaclaw_runner.zygote.wire import Record
from tests.sandbox import stances
from tests.sandbox.endings import Watched
from tests.sandbox.stage import ENTRY, ask, end

pytestmark = pytest.mark.skipif(not stances.LINUX, reason="the sandbox is Linux's")


@pytest_asyncio.fixture
async def launcher() -> AsyncIterator[ZygoteLauncher]:
    before = set(process_tree.children(os.getpid()))  # other fixtures' servers may be among them
    made = ZygoteLauncher(entry=ENTRY, paths=[str(stances.REPOSITORY)])
    await made.start()
    yield made
    await made.close()
    assert set(process_tree.children(os.getpid())) <= before, "the launcher leaves no process"


async def test_two_hundred_launches_leave_no_process_and_no_descriptor(launcher: ZygoteLauncher) -> None:
    zygote = _zygote_of(launcher)
    ours, its = _descriptors(os.getpid()), _descriptors(zygote)
    for _ in range(10):
        handles = await asyncio.gather(*(launcher.launch(None) for _ in range(20)))
        assert len({handle.pid for handle in handles}) == 20
        assert all(await asyncio.gather(*(end(handle) for handle in handles)))
    assert _descriptors(os.getpid()) == ours
    # Some children may stand ready for the next launches, each with one descriptor for its order.
    assert _descriptors(zygote) <= its + READY
    assert len(process_tree.children(zygote)) <= READY


async def test_exit_codes_and_signals_are_those_of_the_worker(launcher: ZygoteLauncher) -> None:
    handle = await launcher.launch(None)
    await ask(handle, {"do": "exit", "code": 9})
    assert await handle.exited() == 9
    assert await handle.exited() == 9, "as often as one likes"
    assert await end(handle)
    handle.signal_tree(signal.SIGKILL)  # no error when it is gone


async def test_a_worker_that_loses_its_channel_ends(launcher: ZygoteLauncher) -> None:
    handle = await launcher.launch(None)
    handle.channel.close()
    assert await handle.exited() == 0
    assert await handle.finish()
    os.close(handle.stderr_fd)


async def test_launches_go_on_after_the_zygotes_death(launcher: ZygoteLauncher) -> None:
    first = await launcher.launch(None)
    zygote = launcher.zygote_pid
    os.kill(zygote, signal.SIGKILL)
    assert await first.exited() == -signal.SIGKILL
    assert await first.finish()
    first.channel.close()
    os.close(first.stderr_fd)
    second = await launcher.launch(None)
    assert launcher.zygote_pid not in (0, zygote)
    assert await end(second)


async def test_launches_in_flight_fail_when_the_zygote_dies(launcher: ZygoteLauncher) -> None:
    zygote = _zygote_of(launcher)
    os.kill(zygote, signal.SIGSTOP)
    launches = [asyncio.create_task(launcher.launch(None)) for _ in range(5)]
    await asyncio.sleep(0)  # each has sent its request
    os.kill(zygote, signal.SIGKILL)
    results = await asyncio.gather(*launches, return_exceptions=True)
    assert all(isinstance(result, LaunchError) for result in results)
    assert await end(await launcher.launch(None))


async def test_a_launch_that_the_zygote_does_not_answer_fails_in_time() -> None:
    launcher = ZygoteLauncher(entry=ENTRY, paths=[str(stances.REPOSITORY)], launch_s=5)
    await launcher.start()
    zygote = _zygote_of(launcher)  # an ordinary user's is the child of the process that was started
    try:
        launcher._launch_s = 0.2
        os.kill(zygote, signal.SIGSTOP)
        with pytest.raises(LaunchError, match=r"within 0\.2 s"):
            await launcher.launch(None)
        os.kill(zygote, signal.SIGCONT)
        launcher._launch_s = 10
        assert await end(await launcher.launch(None)), "the late answer was not taken for this one's"
    finally:
        os.kill(zygote, signal.SIGCONT)
        await launcher.close()


async def test_a_cancelled_launch_costs_its_worker_its_life(launcher: ZygoteLauncher) -> None:
    zygote = _zygote_of(launcher)
    launches = [asyncio.create_task(launcher.launch(None)) for _ in range(3 * READY)]
    await asyncio.sleep(0)  # each launch takes its first step, no more
    for launch in launches:
        launch.cancel()
    await asyncio.gather(*launches, return_exceptions=True)
    assert await end(await launcher.launch(None))
    with Watched(process_tree.children(zygote)) as abandoned:
        assert len(abandoned.left(but=READY)) <= READY, "so many may stand ready for the next launches"


async def test_a_launch_that_is_cancelled_as_its_worker_comes_leaves_no_descriptor(
    launcher: ZygoteLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _descriptors(os.getpid())
    take = ZygoteLink._take_started

    def take_and_cancel(link: ZygoteLink, record: Record) -> None:
        take(link, record)
        launch.cancel()

    launch = asyncio.create_task(launcher.launch(None))
    monkeypatch.setattr(ZygoteLink, "_take_started", take_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await launch
    monkeypatch.undo()
    assert await end(await launcher.launch(None))
    assert _descriptors(os.getpid()) == before


@pytest.mark.parametrize("free", [0, 1])
async def test_at_the_limit_of_open_files_a_launch_fails_and_costs_no_later_one(
    launcher: ZygoteLauncher, free: int
) -> None:
    launcher._launch_s = 3
    before = _descriptors(os.getpid())
    launch = asyncio.create_task(launcher.launch(None))
    await asyncio.sleep(0)  # it has sent its request
    with _left_free(free), pytest.raises(LaunchError):
        await launch
    assert await end(await launcher.launch(None))
    with _left_free(free), pytest.raises(LaunchError):
        await launcher.launch(None)
    assert await end(await launcher.launch(None))
    assert _descriptors(os.getpid()) == before


async def test_at_the_limit_of_open_files_a_worker_is_ended_all_the_same(launcher: ZygoteLauncher) -> None:
    handle = await launcher.launch(None)
    with _left_free(0):
        handle.signal_tree(signal.SIGTERM)
        handle.signal_tree(signal.SIGKILL)
    assert await handle.exited() in (-signal.SIGKILL, -signal.SIGTERM)
    assert await end(handle)


async def test_the_death_of_the_child_that_stands_ready_costs_no_launch(launcher: ZygoteLauncher) -> None:
    zygote = _zygote_of(launcher)
    for _ in range(3):
        ready = process_tree.children(zygote)
        with Watched(ready) as killed:
            for pid in ready:
                os.kill(pid, signal.SIGKILL)
            assert not killed.left()
        assert await end(await launcher.launch(None))


async def test_a_closed_launcher_launches_nothing() -> None:
    launcher = ZygoteLauncher(entry=ENTRY, paths=[str(stances.REPOSITORY)])
    await launcher.start()
    handle = await launcher.launch(None)
    await launcher.close()
    assert await handle.exited() == -signal.SIGKILL
    assert await handle.finish()
    handle.channel.close()
    os.close(handle.stderr_fd)
    with pytest.raises(LaunchError, match="closed"):
        await launcher.launch(None)


async def test_a_worker_that_breaks_before_it_stands_is_a_launch_error() -> None:
    launcher = ZygoteLauncher(entry="tests.sandbox.no_such_module:main", paths=[str(stances.REPOSITORY)])
    with pytest.raises(LaunchError, match="ended"):
        await launcher.start()
    await launcher.close()


async def test_sigterm_reaches_the_whole_tree(launcher: ZygoteLauncher) -> None:
    handle = await launcher.launch(None, options=LaunchOptions(shell=True))
    assert await ask(handle, {"do": "heed"}) == "heeding"
    handle.signal_tree(signal.SIGTERM)
    assert await _answer(handle) == "told"
    assert await end(handle)


async def test_the_real_worker_says_run_start_in_a_full_sandbox(tmp_path: Path) -> None:
    launcher = ZygoteLauncher()
    await launcher.start()
    workspace = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    handle = await launcher.launch(workspace)
    os.close(workspace)
    handle.channel.sendall(protocol.encode("run-1", pb.HostStart(protocol_version=protocol.PROTOCOL_VERSION)))
    data = await asyncio.get_running_loop().sock_recv(handle.channel, 1 << 16)
    line = protocol.decode(data.rstrip(b"\n"), protocol.UP)
    assert isinstance(line.message, pb.RunStart)
    assert await end(handle)
    await launcher.close()


def _zygote_of(launcher: ZygoteLauncher) -> int:
    """The process that forks: the started one, or the one below it."""
    started = launcher.zygote_pid
    return started if launcher.border == "own" else process_tree.children(started)[0]


@contextmanager
def _left_free(count: int) -> Iterator[None]:
    """This process may open so many more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] <= top:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    for fd in taken[len(taken) - count :]:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken[: len(taken) - count]:
            os.close(fd)


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def _answer(handle: ZygoteHandle) -> object:
    return await ask(handle, {"do": "told"})
