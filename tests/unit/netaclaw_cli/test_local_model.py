"""The local model's address, where there is no model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aiohttp

from netaclaw_cli import local_server
from netaclaw_cli.doctor import Verdict, check_local_model
from netaclaw_cli.local_model import LocalModel


async def test_a_server_that_does_not_start_is_said_to_every_caller(tmp_path: Path) -> None:
    environ = {"NETACLAW_LOCAL_MODEL_FILE": str(tmp_path / "none.gguf")}
    async with LocalModel(environ) as model, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(f"{model.url}/chat/completions", json={}) as response:
                assert response.status == 503
                assert (await response.json())["error"]["type"] == "local_model_failed"
        assert model.pid is None


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path) -> None:
    environ = {"NETACLAW_LOCAL_MODEL_FILE": str(tmp_path / "none.gguf")}
    [finding] = check_local_model(environ)
    assert finding.verdict is Verdict.NOTE
    assert "netaclaw[local]" in finding.remedy
    ended = subprocess.run(
        [sys.executable, "-m", local_server.__name__], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "netaclaw doctor" in ended.stderr
