"""What doctor is told agrees with what a launcher's workers get."""

from __future__ import annotations

import pytest

from netaclaw_runner.sandbox.report import LIMITS, verdict
from netaclaw_runner.zygote.launcher import ZygoteLauncher
from netaclaw_runner.zygote.probe import probe
from tests.sandbox import stances

pytestmark = pytest.mark.skipif(not stances.LINUX, reason="the sandbox is Linux's")


async def test_the_probe_and_the_launcher_say_the_same() -> None:
    launcher = ZygoteLauncher()
    await launcher.start()
    said, got = probe(), launcher.sandbox
    await launcher.close()
    assert list(said.in_force) == list(got.in_force)
    assert [name for name in said.missing if name not in LIMITS] == list(got.missing)
    assert verdict(said.in_force) == ("isolated" if not got.missing else verdict(got.in_force))
