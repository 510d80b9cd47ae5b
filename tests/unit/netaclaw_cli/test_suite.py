"""The suite as child processes: order, wiring, death and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from netaclaw_chassis.link import LinkSettings
from netaclaw_cli.access import Access
from netaclaw_cli.child import ServiceFailed
from netaclaw_cli.errors import CommandError
from netaclaw_cli.suite import Suite, SuiteOptions
from tests.unit.netaclaw_cli import fake_services

NAMES = ("store", "gateway")


@pytest.fixture
def options(tmp_path: Path) -> SuiteOptions:
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return SuiteOptions(data_dir=tmp_path / "data", environ=dict(os.environ, PYTHONPATH=path))


def suite(options: SuiteOptions, tmp_path: Path, report: Callable[[str], None] = lambda line: None) -> Suite:
    return Suite(options, report, fake_services.make(tmp_path, NAMES))


def alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110  # other processes make it true
            await asyncio.sleep(0.01)  # between two looks, within the bound above


async def test_services_start_in_order_and_stop_in_reverse(options: SuiteOptions, tmp_path: Path) -> None:
    async with suite(options, tmp_path) as running:
        store, gateway = (running.ports(name)["public"] for name in NAMES)
        assert running.address == gateway
        pids = [running.pid(name) for name in NAMES]
    assert fake_services.notes(tmp_path) == ["store start", f"gateway start  {store}", "gateway stop", "store stop"]
    assert not any(map(alive, pids))


async def test_a_service_that_cannot_start_says_why_and_nothing_is_left(options: SuiteOptions, tmp_path: Path) -> None:
    (tmp_path / "gateway.broken").touch()
    with pytest.raises(ServiceFailed, match=r"^gateway: it is broken$"):
        async with suite(options, tmp_path):
            pass
    assert fake_services.notes(tmp_path)[-1] == "store stop"


async def test_a_port_in_use_is_named(options: SuiteOptions, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fixed = SuiteOptions(options.data_dir, base_port=port, environ=options.environ)
        with pytest.raises(ServiceFailed, match=f"127.0.0.1:{port}: the port is in use"):
            async with suite(fixed, tmp_path):
                pass


async def test_a_service_that_ends_without_a_word_is_named_with_its_code(options: SuiteOptions, tmp_path: Path) -> None:
    services = fake_services.make(tmp_path, NAMES)
    (tmp_path / "fake_gateway.py").write_text("raise SystemExit(7)")
    with pytest.raises(ServiceFailed, match=r"^gateway: ended with code 7$"):
        async with Suite(options, services=services):
            pass


async def test_a_service_that_dies_comes_back_on_its_port(options: SuiteOptions, tmp_path: Path) -> None:
    said: list[str] = []
    async with suite(options, tmp_path, said.append) as running:
        before, address = running.pid("gateway"), running.address
        os.kill(before, signal.SIGKILL)
        await until(lambda: running.pid("gateway") != before)
        assert running.address == address
        assert alive(running.pid("gateway"))
    assert said == ["gateway: ended with code -9; starting it again"]


async def test_a_service_that_cannot_even_be_started_again_is_tried_again(
    options: SuiteOptions, tmp_path: Path
) -> None:
    said: list[str] = []
    logs, aside = options.data_dir / "logs", options.data_dir / "aside"

    def report(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            aside.rename(logs)

    async with suite(options, tmp_path, report) as running:
        before = running.pid("gateway")
        logs.rename(aside)
        os.kill(before, signal.SIGKILL)
        await until(lambda: running.pid("gateway") != before)
    assert said[1].startswith("gateway: cannot be started: No such file or directory; starting it again")


async def test_a_service_that_keeps_dying_is_given_up(
    options: SuiteOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netaclaw_cli.suite._FIRST_PAUSE_S", 0.0)
    async with suite(options, tmp_path) as running:
        (tmp_path / "gateway.broken").touch()
        os.kill(running.pid("gateway"), signal.SIGKILL)
        async with asyncio.timeout(30):
            assert await running.failed == "gateway: it is broken"


async def test_a_service_that_does_not_stop_is_killed_within_five_seconds(
    options: SuiteOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netaclaw_cli.suite.STOP_S", 1.5)
    (tmp_path / "gateway.stubborn").touch()
    said: list[str] = []
    running = suite(options, tmp_path, said.append)
    async with running:
        pids = [running.pid(name) for name in NAMES]
        started = time.monotonic()
    assert time.monotonic() - started < 5
    assert said == ["gateway does not stop and is killed"]
    assert not any(map(alive, pids))
    assert fake_services.notes(tmp_path)[-1] == "store stop"


async def test_a_data_directory_has_one_suite(options: SuiteOptions, tmp_path: Path) -> None:
    async with suite(options, tmp_path):
        access = Access.of("127.0.0.1:1", "token", LinkSettings())
        access.write(options.data_dir)
        with pytest.raises(ServiceFailed, match="in use by another suite"):
            async with suite(options, tmp_path):
                pass
        assert Access.read(options.data_dir) == access  # commands still reach the one that runs
    with pytest.raises(CommandError):
        Access.read(options.data_dir)
    async with suite(options, tmp_path) as again:
        assert again.address


async def test_a_data_directory_that_cannot_be_made_is_named(options: SuiteOptions, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ServiceFailed, match="not writable"):
        async with suite(options, tmp_path):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
async def test_services_end_when_the_command_line_is_killed(options: SuiteOptions, tmp_path: Path) -> None:
    fake_services.make(tmp_path, NAMES)
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, pathlib\n"
        "from netaclaw_cli.suite import Suite, SuiteOptions\n"
        "from tests.unit.netaclaw_cli import fake_services\n"
        "async def main():\n"
        f"    here = pathlib.Path({str(tmp_path)!r})\n"
        f"    services = fake_services.make(here, {NAMES!r})\n"
        "    async with Suite(SuiteOptions(here / 'data'), services=services) as suite:\n"
        f"        print(*(suite.pid(name) for name in {NAMES!r}), flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    root = str(Path(__file__).parents[3])
    environ = dict(options.environ, PYTHONPATH=os.pathsep.join([options.environ["PYTHONPATH"], root]))
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(program), stdout=asyncio.subprocess.PIPE, env=environ
    )
    assert parent.stdout is not None
    pids = [int(word) for word in (await parent.stdout.readline()).split()]
    assert len(pids) == len(NAMES)
    parent.kill()
    await parent.wait()
    await until(lambda: not any(map(alive, pids)))
