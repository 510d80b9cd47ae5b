"""The command line's words: arguments, places, expected failures, the doctor."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from netaclaw.subagent.v1.runner_service_pb2 import GetStatusResponse
from netaclaw_cli import doctor, places
from netaclaw_cli.__main__ import main
from netaclaw_cli.doctor import Verdict
from netaclaw_cli.errors import CommandError
from netaclaw_cli.logs import keep_bounded


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {command} " in shown for command in ("up", "chat", "demo", "doctor", "keys", "models"))
    assert "reload" not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["fly"], ["up", "--port", "x"], ["up", "--port", "65535"], ["reload"]),
        *(["keys", "create", "ann", f"--days={days}"] for days in ("nan", "inf", "1e12", "0", "-1")),
    ],
)
def test_wrong_usage_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: netaclaw")


def test_an_unreachable_suite_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    assert main(["chat", "--address", address, "hi"]) == 1
    said = capsys.readouterr().err
    assert said == f"netaclaw: cannot reach a suite at {address}; start one with `netaclaw up`\n"


def test_a_bad_workspace_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--workspace", "nonsense"]) == 1
    assert capsys.readouterr().err == "netaclaw: nonsense is not a workspace of the form NAME=PATH\n"


def test_the_address_is_the_option_then_the_variable_then_the_fixed_one() -> None:
    environ = {"NETACLAW_ADDRESS": "h:2"}
    assert places.gateway_address("h:1", environ) == "h:1"
    assert places.gateway_address(None, environ) == "h:2"
    assert places.gateway_address(None, {}) == "127.0.0.1:7400"


@pytest.mark.parametrize("address", ["host", "host:", ":7400", "host:x", "host:0", "host:70000"])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(CommandError, match="host:port"):
        places.gateway_address(address, {})


def test_workspaces_come_from_the_variable_and_the_options(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    environ = {"NETACLAW_WORKSPACES": f"one={tmp_path}/a,two={tmp_path}/b"}
    found = places.workspaces([f"two={tmp_path}/c"], environ)
    assert found == {"one": tmp_path / "a", "two": tmp_path / "c"}


def test_a_workspace_must_be_a_directory_that_can_be_passed_on(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    for bad in (f"x={tmp_path}/none", f"x={tmp_path}/a,b", f"x y={tmp_path}", "x"):
        with pytest.raises(CommandError):
            places.workspaces([bad], {})


def test_a_log_past_its_limit_is_moved_aside_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    assert not keep_bounded(log, 10)
    with log.open("ab") as writer:
        writer.write(b"x" * 20)
        writer.flush()
        assert keep_bounded(log, 10)
        writer.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "store.log.1").read_bytes() == b"x" * 20
    assert not keep_bounded(log, 10)


def test_a_log_past_its_limit_is_cut_also_where_it_cannot_be_kept(tmp_path: Path) -> None:
    log = tmp_path / "store.log"
    (tmp_path / "store.log.1").mkdir()  # as little room for a copy as on a full disk
    log.write_bytes(b"x" * 20)
    assert keep_bounded(log, 10)
    assert log.read_bytes() == b""


def test_the_doctor_finds_this_machine_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--data-dir", str(tmp_path / "new")]) == 0
    assert "netaclaw can run here" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("place", [0, 6])
def test_the_doctor_says_which_ports_are_taken(place: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (finding,) = doctor.check_ports(running=False, base=port - place)
    assert (finding.verdict, str(port) in finding.what) == (Verdict.NOTE, True)


def test_the_doctor_takes_a_running_suites_word_for_the_sandbox() -> None:
    status = GetStatusResponse(sandbox_in_force=["uid"], sandbox_missing=["landlock"])
    assert [finding.what for finding in doctor.check_sandbox(status)] == [
        "sandbox in force: uid",
        "sandbox missing here: landlock",
    ]


def test_the_doctor_asks_for_postgres_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (finding,) = doctor.check_postgres({})
    assert (finding.verdict, "NETACLAW_DATABASE_URL" in finding.remedy) == (Verdict.MISSING, True)
    (named,) = doctor.check_postgres({"NETACLAW_DATABASE_URL": "postgresql://h/d"})
    assert named.verdict is Verdict.OK


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_the_doctor_names_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert doctor.check_data_dir(tmp_path / "data").verdict is Verdict.MISSING
