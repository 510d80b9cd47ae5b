"""cases.json, each case against each way in."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import Way
from tests.conformance.service import raw
from tests.conformance.wire import BINARY, TEXT, Answer, ask, decoded_value, dumped, frame, request

CHAT = "/netaclaw.chat.v1.ChatService/Chat"
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "cases.json").read_text())["cases"]
RUNS = [
    pytest.param(case, mode, id=f"{case['name']} ({mode})")
    for case in CASES
    for mode in ("binary", "text")
    if case.get("mode", mode) == mode
]


@pytest.mark.parametrize(("case", "mode"), RUNS)
async def test_a_request_gets_the_frames_that_its_case_expects(way: Way, case: dict[str, Any], mode: str) -> None:
    way.service.play(case.get("upstream", {}))
    expected = case["expect"] | (case.get("envoy", {}) if way.name == "envoy" else {})
    started = time.monotonic()
    answer = await ask(way.web, call_of(case.get("call", {}), mode, way.web))
    told = dumped(answer)
    assert answer.status in many(expected.get("http", 200)), told
    assert answer.ended, told
    assert bool(way.service.seen) in many(expected.get("reached", bool(way.service.seen))), told
    if "within_s" in expected:
        assert time.monotonic() - started < expected["within_s"]
    check_status(answer, expected)
    check_frames(answer, expected, mode)
    check_headers(answer, expected)
    check_upstream(way, expected)


def call_of(call: dict[str, Any], mode: str, address: str) -> list[bytes]:
    """A case's request as bytes."""
    kind = TEXT if mode == "text" else BINARY
    headers = {"host": address, "content-type": kind, "accept": kind, "x-grpc-web": "1"} | call.get("headers", {})
    if "body_ascii" in call:
        body = call["body_ascii"].encode()
    else:
        if "body_hex" in call:
            plain = bytes.fromhex(call["body_hex"])
        else:
            message = b"x" * call["repeat"] if "repeat" in call else call.get("message", "q").encode()
            plain = frame(message)
        body = base64.b64encode(plain) if mode == "text" else plain
    verb = call.get("verb", "POST")
    return request(call.get("method", CHAT), [body] if verb == "POST" else [], headers, verb=verb)


def many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def check_status(answer: Answer, expected: dict[str, Any]) -> None:
    if "status" in expected:
        assert answer.code in many(expected["status"]), dumped(answer)
    if "words" in expected:
        assert answer.words == expected["words"]
    if "words_raw" in expected:
        assert answer.trailers["grpc-message"].upper() == expected["words_raw"].upper()
    if "details" in expected:
        assert decoded_value(answer.trailers["grpc-status-details-bin"]).hex() == expected["details"]


def check_frames(answer: Answer, expected: dict[str, Any], mode: str) -> None:
    if answer.status != 200 or "status" not in expected:
        return
    assert answer.header("content-type") == (TEXT if mode == "text" else BINARY), dumped(answer)
    if expected.get("messages") is not None:
        assert [message.decode() for message in answer.messages] == expected["messages"]
    if "repeated" in expected:
        assert answer.messages == [b"x" * expected["repeated"]]
    for key, value in expected.get("trailers", {}).items():
        found = answer.trailers[key]
        assert (decoded_value(found) if isinstance(value, dict) else found) == raw(value)


def check_headers(answer: Answer, expected: dict[str, Any]) -> None:
    for key, value in expected.get("headers", {}).items():
        found = answer.header(key)
        assert found is not None, dumped(answer)
        assert (decoded_value(found) if isinstance(value, dict) else found) == raw(value)
    for key in expected.get("absent", ()):
        assert answer.header(key) is None
    for name, listed in (("exposes", "access-control-expose-headers"), ("allows", "access-control-allow-headers")):
        words = {word.strip().lower() for word in (answer.header(listed) or "").split(",")}
        assert set(expected.get(name, ())) <= words, dumped(answer)


def check_upstream(way: Way, expected: dict[str, Any]) -> None:
    for key, value in expected.get("seen", {}).items():
        assert way.service.seen[0].get(key) == raw(value)
    for key in expected.get("unseen", ()):
        assert key not in way.service.seen[0]
    if "deadline_s" in expected:
        low, high = expected["deadline_s"]
        assert way.service.remaining is not None
        assert low < way.service.remaining < high
