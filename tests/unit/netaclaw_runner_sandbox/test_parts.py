"""Small parts of sandbox and zygote that need no kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netaclaw_runner.sandbox import identity
from netaclaw_runner.sandbox.options import MODES, LaunchOptions, ResourceLimits, SandboxSettings
from netaclaw_runner.sandbox.report import REQUIRED, Report, read_line, verdict
from netaclaw_runner.zygote.wire import Record, pack_options, unpack_options


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize("workspace", [False, True])
def test_options_travel_in_a_byte(mode: str, writable: bool, shell: bool, workspace: bool) -> None:
    options = LaunchOptions(mode, writable, shell)  # type: ignore[arg-type]  # one of MODES
    packed = pack_options(options, workspace=workspace)
    assert len(packed) == 1
    assert unpack_options(packed) == (options, workspace)


def test_a_byte_that_nobody_sends_is_refused() -> None:
    with pytest.raises(IndexError):
        unpack_options(b"\xff")


def test_records_travel() -> None:
    record = Record("exit", 123456, -9)
    assert Record.unpack(record.pack()) == record


def test_settings_travel() -> None:
    settings = SandboxSettings(1234, ResourceLimits(processes=7))
    assert SandboxSettings.from_json(settings.to_json()) == settings


def test_a_report_travels_as_a_line() -> None:
    report = Report(["landlock:7"], ["seccomp"])
    assert read_line(report.line(refused=True)) == (report, True)
    for foreign in (b"{}", b"[]", b"nonsense", b'{"inForce":1,"missing":[]}'):
        with pytest.raises(ValueError):  # noqa: PT011  # the text is json's
            read_line(foreign)


def test_what_was_not_reached_is_missing() -> None:
    report = Report(["landlock:7", "uid:65534"], ["seccomp"])
    report.close()
    assert "seccomp" in report.lacking()
    assert not {"landlock", "uid"} & set(report.missing)
    assert set(report.missing) == set(REQUIRED) - {"landlock", "uid"}
    assert len(report.missing) == len(set(report.missing))


def test_the_verdict_needs_every_required_layer() -> None:
    whole = [f"{name}:1" for name in REQUIRED]
    assert verdict(whole) == "isolated"
    assert verdict(["landlock:7", "seccomp"]) == "partly isolated"
    assert verdict(["process", "minimal_env", "pdeathsig"]) == "not isolated"


@pytest.mark.parametrize(("owner", "worker"), [(0, 65534), (1000, 65534), (65535, 65534), (70000, 5)])
def test_a_map_turns_the_owner_into_the_worker_and_keeps_all_others(owner: int, worker: int) -> None:
    ranges = [tuple(int(part) for part in line.split()) for line in identity.lines(owner, worker).splitlines()]

    def seen(disk: int) -> int | None:
        return next(
            (outside + disk - inside for inside, outside, count in ranges if inside <= disk < inside + count), None
        )

    assert seen(owner) == worker
    assert seen(worker) is None, "two ids must not become one"
    others = {0, 1, 4, 5, 6, 999, 1000, 65533, 65536, 70001, (1 << 31) - 1} - {owner, worker}
    assert all(seen(other) == other for other in others)


def test_an_owner_that_is_the_worker_needs_no_turning() -> None:
    assert identity.lines(5, 5) == f"0 0 {1 << 31}"


def test_a_workspace_that_is_mapped_or_absent_is_the_workers(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert identity.choose(None, 65534, mapped=False, writable=True) == (65534, 65534)
        assert identity.choose(fd, 65534, mapped=True, writable=True) == (65534, 65534)
    finally:
        os.close(fd)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_an_unmapped_workspace_decides_who_its_worker_is(tmp_path: Path) -> None:
    def chosen(mode: int, uid: int, *, writable: bool) -> tuple[int, int]:
        tmp_path.chmod(mode)
        os.chown(tmp_path, uid, uid)
        fd = os.open(tmp_path, os.O_RDONLY)
        try:
            return identity.choose(fd, 65534, mapped=False, writable=writable)
        finally:
            os.close(fd)

    assert chosen(0o700, 1234, writable=True) == (1234, 1234)
    assert chosen(0o755, 0, writable=False) == (65534, 65534)
    assert chosen(0o700, 0, writable=False) == (0, 0)
    assert chosen(0o755, 0, writable=True) == (0, 0)
