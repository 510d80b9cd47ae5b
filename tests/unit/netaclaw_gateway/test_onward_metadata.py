"""What the gateway tells an upstream about a call."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError
from netaclaw_chassis.ids import is_id
from netaclaw_gateway.onward import onward_metadata as made
from netaclaw_gateway.onward import onward_timeout


def onward_metadata(received: Iterable[tuple[str, str | bytes]]) -> tuple[tuple[str, str | bytes], ...]:
    return made(received, ((calls.OWNER_KEY, "local"),))


def test_an_inbound_owner_is_never_believed() -> None:
    onward = dict(onward_metadata([("netaclaw-owner-id", "someone-else"), ("netaclaw-anything", "x")]))
    assert onward["netaclaw-owner-id"] == "local"
    assert "netaclaw-anything" not in onward


def test_credentials_and_the_connections_own_headers_end_here() -> None:
    inbound = [("authorization", "Bearer secret"), ("cookie", "a=b"), ("user-agent", "grpc"), ("grpc-encoding", "gzip")]
    assert {key for key, _ in onward_metadata(inbound)} == {"netaclaw-owner-id", "netaclaw-request-id"}


def test_ordinary_and_binary_metadata_passes_with_repeats_in_order() -> None:
    inbound: list[tuple[str, str | bytes]] = [
        ("traceparent", "00-1"),
        ("tag", "a"),
        ("tag", "b"),
        ("blob-bin", b"\x00\xff"),
    ]
    onward = [pair for pair in onward_metadata(inbound) if not pair[0].startswith("netaclaw-")]
    assert onward == inbound


@pytest.mark.parametrize("value", ["ключ", "a\nb", "a\0b", "\xff", "\x7f"])
def test_a_value_that_grpc_cannot_carry_is_left_out_and_the_call_goes_on(value: str) -> None:
    inbound: list[tuple[str, str | bytes]] = [("tag", value), ("tracestate", value), ("tag", "x"), ("tag", "")]
    onward = [pair for pair in onward_metadata(inbound) if not pair[0].startswith("netaclaw-")]
    assert onward == [("tag", "x"), ("tag", "")]


@pytest.mark.parametrize("pairs", [[("tag", "x" * 6200)], [("blob-bin", b"x" * 6200)], [("k", "v")] * 200])
def test_more_metadata_than_an_upstream_takes_is_refused_by_name(pairs: list[tuple[str, str | bytes]]) -> None:
    with pytest.raises(NetaclawError) as caught:
        onward_metadata(pairs)
    assert (caught.value.reason_name, caught.value.metadata) == ("MESSAGE_TOO_LARGE", {"limit": "metadata_bytes"})
    onward_metadata(pairs[: len(pairs) // 2])


@pytest.mark.parametrize(
    ("left", "onward"), [(None, None), (3.5, 3.5), (0.0, 0.0), (-2.0, 0.0), (1e9, None), (float("inf"), None)]
)
def test_a_deadline_beyond_every_clock_is_none_and_a_past_one_is_now(left: float | None, onward: float | None) -> None:
    assert onward_timeout(left) == onward


def test_a_sane_request_id_is_kept() -> None:
    assert dict(onward_metadata([("netaclaw-request-id", "page-17.a")]))["netaclaw-request-id"] == "page-17.a"


@pytest.mark.parametrize("bad", ["", "x" * 65, "a b", "line\nbreak", "ключ"])
def test_an_odd_request_id_is_replaced_by_a_new_one(bad: str) -> None:
    request_id = dict(onward_metadata([("netaclaw-request-id", bad)]))["netaclaw-request-id"]
    assert is_id(str(request_id))


def test_the_request_id_is_the_one_in_this_process_log() -> None:
    call = calls.begin([])
    assert dict(onward_metadata([]))["netaclaw-request-id"] == call.request_id


def test_the_balancers_hint_passes_only_when_it_looks_like_an_id() -> None:
    hint = ("netaclaw-session-id", "0192f0c1-0000-7000-8000-000000000000")
    assert hint in onward_metadata([hint])
    assert "netaclaw-session-id" not in dict(onward_metadata([("netaclaw-session-id", "../x")]))
