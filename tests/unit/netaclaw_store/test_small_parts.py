"""Codec, page tokens, named SQL, agent rules, settings and the server's account."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.agent.v1 import agent_pb2 as a
from netaclaw.session.v1 import entry_pb2 as e
from netaclaw_chassis import settings as chassis_settings
from netaclaw_chassis.errors import InvalidRequest
from netaclaw_store import codec, migrations, pages, side_rows
from netaclaw_store.agent_rules import apply_mask, check_agent
from netaclaw_store.embedded_home import Account, socket_dir
from netaclaw_store.queries import SQL, parse
from netaclaw_store.settings import StoreSettings


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_are_exact_to_the_microsecond_both_ways(moment: datetime) -> None:
    assert codec.moment(codec.timestamp(moment)) == moment


def test_a_body_keeps_nothing_that_stands_in_columns() -> None:
    entry = e.Entry(entry_id="a", parent_entry_id="p", session_id="s", label="l", updated_seq=3)
    entry.user.text = "x\0y"
    entry.subagent_projection.diagnostics.append("never stored")
    kept = e.Entry.FromString(codec.entry_body(entry))
    assert kept == e.Entry(entry_id="a", user=e.UserBody(text="x\0y"))


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("  Hello\n\tthere  ", "Hello there"),
        ("x" * 81, "x" * 79 + "…"),
        ("a\0b", "a�b"),
        (" \n", ""),
    ],
)
def test_a_title_is_one_short_line_of_the_first_message(content: str, title: str) -> None:
    assert codec.title_from(content) == title


@given(st.text(st.sampled_from('\\\0u0{}"é'), max_size=30))
def test_json_for_a_column_holds_every_text_and_no_nul(text: str) -> None:
    kept = side_rows._json({"text": text})
    assert json.loads(kept) == {"text": text.replace("\0", "�")}


def test_a_text_that_speaks_of_escapes_is_no_escape() -> None:
    kept = side_rows._json([r"\u0000", r"a\\u0000", "\\\0"])
    assert json.loads(kept) == [r"\u0000", r"a\\u0000", "\\�"]


def test_a_page_token_continues_its_own_list_only() -> None:
    token = pages.write_token(("tree", "s"), 7)
    assert pages.read_token(token, ("tree", "s"), (int,)) == [7]
    assert pages.read_token("", ("tree", "s"), (int,)) is None
    for scope, kinds in ((("tree", "t"), (int,)), (("tree", "s"), (str,)), (("tree", "s"), (int, int))):
        with pytest.raises(InvalidRequest):
            pages.read_token(token, scope, kinds)


@pytest.mark.parametrize(
    "text",
    [
        f'[["tree"],{2**31}]',
        '[["tree"],-1]',
        '[["tree"],true]',
        f'[["tree"],{"9" * 5000}]',
        '[["tree"],"a\\u0000b"]',
        '[["tree"],"\\ud800"]',
        "[" * 100_000,
        "é",
    ],
    ids=lambda text: text[:20],
)
def test_a_page_token_that_no_list_gave_out_is_refused(text: str) -> None:
    for token in (base64.urlsafe_b64encode(text.encode()).decode(), text):
        for kind in (int, str):
            with pytest.raises(InvalidRequest):
                pages.read_token(token, ("tree",), (kind,))


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_no_page_token_crashes(token: bytes | str) -> None:
    words = token if isinstance(token, str) else token.decode("latin-1")
    if words:
        with pytest.raises(InvalidRequest):
            pages.read_token(words, ("tree", "s"), (int,))


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(1, 60))
def test_chunks_keep_order_and_size(sizes: list[int], limit: int) -> None:
    by_id = {str(n): size for n, size in enumerate(sizes)}
    split = list(pages.chunks(by_id, by_id, limit))
    assert [each for run in split for each in run] == list(by_id)
    assert all(len(run) == 1 or sum(by_id[each] for each in run) <= limit for run in split)


def test_blocks_are_named_once_and_their_comments_are_left_out() -> None:
    assert parse("-- name: one\n-- why\nSELECT 1;\n-- name: two\nSELECT 2") == {"one": "SELECT 1", "two": "SELECT 2"}
    for text in ("-- name: one\n", "-- name: one\nSELECT 1\n-- name: one\nSELECT 2"):
        with pytest.raises(ValueError, match="one"):
            parse(text)


def test_every_block_is_used_and_every_used_block_exists() -> None:
    code = "".join(
        file.read_text() for file in resources.files("netaclaw_store").iterdir() if file.name.endswith(".py")
    )
    assert set(re.findall(r'SQL\["([a-z_]+)"\]', code)) <= set(SQL)
    assert [name for name in SQL if f'"{name}"' not in code] == []


def test_migrations_are_numbered_without_gaps() -> None:
    assert [each.version for each in migrations.load()] == list(range(1, len(migrations.load()) + 1))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"name": ""}, "agent.name"),
        ({"name": "x" * 101}, "agent.name"),
        ({"name": " x"}, "agent.name"),
        ({"description": "x" * 2001}, "agent.description"),
        ({"system_prompt": "x" * 65_537}, "agent.system_prompt"),
        ({"max_tool_rounds": -1}, "agent.max_tool_rounds"),
        ({"tool_names": a.NameList(names=["a b"])}, "agent.tool_names"),
        ({"subagent_config": a.SubagentConfig(max_concurrent=33)}, "agent.subagent_config.max_concurrent"),
        ({"subagent_config": a.SubagentConfig(max_concurrent=0)}, "agent.subagent_config.max_concurrent"),
        (
            {"subagent_config": a.SubagentConfig(allowed_preset_agent_ids=a.NameList(names=["x"]))},
            "agent.subagent_config.allowed_preset_agent_ids",
        ),
        ({"thinking_level": 99}, "agent.thinking_level"),
        ({"approvals": {"shell": 9}}, "agent.approvals"),
    ],
)
def test_a_wrong_field_of_an_agent_is_named(fields: dict[str, Any], wrong: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_agent(a.Agent(**{"name": "ok", **fields}))
    assert [field for field, _ in caught.value.violations] == [wrong]


def test_a_mask_tells_an_empty_list_from_none() -> None:
    stored = a.Agent(name="x", tool_names=a.NameList(names=["t"]))
    emptied = apply_mask(stored, a.Agent(tool_names=a.NameList()), ["tool_names"])
    assert emptied.HasField("tool_names")
    assert not emptied.tool_names.names
    inherited = apply_mask(emptied, a.Agent(), ["tool_names"])
    assert not inherited.HasField("tool_names")
    unset = apply_mask(a.Agent(read_only=True), a.Agent(), ["read_only"])
    assert not unset.HasField("read_only")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NETACLAW_STORE_PORT", "-1"),
        ("NETACLAW_LEASE_SECONDS", "nan"),
        ("NETACLAW_NOTICE_POLL_SECONDS", "0"),
        ("NETACLAW_EMBEDDED_FSYNC", "maybe"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(chassis_settings.SettingsError, match=name):
        chassis_settings.read(StoreSettings, {name: value})


def test_settings_have_defaults() -> None:
    configured = chassis_settings.read(StoreSettings, {"NETACLAW_WORKSPACES": "a=/x,b=/y"})
    assert dict(configured.workspaces) == {"a": "/x", "b": "/y"}
    assert (configured.port, configured.internal_port, configured.lease_seconds) == (7401, 7402, 10.0)


def test_an_account_reaches_only_what_every_directory_lets_it(tmp_path: Path) -> None:
    stranger = Account(uid=61_111, gid=61_112)
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o755)
    assert not stranger.reaches(inner)  # pytest's own directory is closed
    owner = Account(uid=tmp_path.stat().st_uid, gid=tmp_path.stat().st_gid)
    assert owner.reaches(inner)
    assert not owner.reaches(tmp_path / "missing")


def test_a_socket_path_stays_short_enough_for_the_system(tmp_path: Path) -> None:
    assert socket_dir(tmp_path) == tmp_path / "run"
    deep = tmp_path / ("x" * 120)
    assert len(str(socket_dir(deep))) <= 80
    assert socket_dir(deep) == socket_dir(deep) != socket_dir(tmp_path / ("y" * 120))
