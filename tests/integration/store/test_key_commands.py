"""`netaclaw keys` against a store: what an operator sees of what is kept."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from netaclaw.store.v1.identity_service_pb2 import CreateKeyRequest
from netaclaw_chassis.link import LinkSettings
from netaclaw_cli import keys
from netaclaw_cli.access import Access
from tests.integration.store.driver import Store


async def test_keys_are_shown_whatever_they_are_called(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "run-suite").mkdir()
    Access.of(store.ports["internal"], "", LinkSettings()).write(tmp_path)
    for name in ("[/]", "[red]ci[/red]", "\x1b[2Jgone", "[link=x]"):
        await store.keys.CreateKey(CreateKeyRequest(owner_id="[bold]", name=name))
    assert await keys.show(Namespace(data_dir=str(tmp_path), owner=None)) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("[/]", "[red]ci[/red]", "[link=x]", "[bold]"))
    assert "\x1b[2J" not in shown
