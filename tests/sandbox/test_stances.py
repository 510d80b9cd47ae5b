"""What holds in every stance: whose files, what `required` says, and that nothing outlives anything."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netaclaw_runner.launcher import MINIMAL_ENVIRONMENT
from tests.sandbox import stances
from tests.sandbox.endings import Watched
from tests.sandbox.stances import STANCES, Stance

pytestmark = pytest.mark.skipif(not stances.LINUX, reason="the sandbox is Linux's")


@pytest.fixture(params=STANCES)
def stance(request: pytest.FixtureRequest) -> Stance:
    given: Stance = request.param
    if not stances.possible(given):
        pytest.skip("only root can stand there")
    return given


def test_a_workspace_closed_to_others_is_read_and_what_is_written_is_its_owners(stance: Stance) -> None:
    answer = stances.ask(stance, {"do": "own"})
    assert (answer["read"], answer["written"]) == ("harmless", "written")
    assert answer["owner"] == answer["me"]
    if stance == "root":
        assert answer["uid"] != 0, "the map of ids is in force on this kind of file system"


def test_required_refuses_and_names_what_is_missing(stance: Stance) -> None:
    error = stances.ask(stance, {"do": "required"})["error"]
    if stance.endswith("bare"):
        assert "policy requires a sandbox" in error
        assert all(name in error for name in ("pid_namespace", "user_namespace", "mount_namespace"))
    elif error:
        pytest.skip(f"this machine does not offer it: {error}")


def test_an_ended_worker_leaves_nothing(stance: Stance) -> None:
    killed, by_itself = stances.ask(stance, {"do": "leave"})["ends"]
    assert killed == {"status": -signal.SIGKILL, "gone": True, "grown": killed["grown"], "left": 0}
    assert by_itself == {"status": 7, "gone": True, "grown": by_itself["grown"], "left": 0}
    assert min(killed["grown"], by_itself["grown"]) >= 3


def test_a_worker_knows_its_stated_environment_and_no_service_library(stance: Stance) -> None:
    about = stances.ask(stance, {"do": "about"})
    assert about["environment"] == MINIMAL_ENVIRONMENT
    assert not {"grpc", "asyncio", "aiohttp", "ssl"} & set(about["modules"])
    assert (about["cwd"], about["session"]) == ("/", True)
    assert about["uid"] != 0


@pytest.mark.parametrize("victim", ["runner", "zygote"])
def test_no_process_outlives_runner_or_zygote(stance: Stance, victim: str) -> None:
    with _standing_trees(stance) as (process, answer):
        with Watched(answer["below"]) as below:
            os.kill(process if victim == "runner" else answer["zygote"], signal.SIGKILL)
            left = below.left()
        shutil.rmtree(Path(answer["base"]), ignore_errors=True)
    assert len(answer["below"]) >= 10
    assert not left


@contextmanager
def _standing_trees(stance: Stance) -> Iterator[tuple[int, dict[str, Any]]]:
    process = stances.start(stance, {"do": "tree"})
    try:
        yield process.pid, stances.answer_of(process)
    finally:
        process.kill()
        process.communicate()
