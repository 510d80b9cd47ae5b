"""The web page is the same through both ways in, and costs nobody a request of their limit."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from netaclaw_gateway import app, pages
from tests.conformance.conftest import WAYS
from tests.conformance.envoy import open_envoy
from tests.conformance.front import open_front
from tests.conformance.service import CaseService
from tests.conformance.test_cases import CHAT
from tests.conformance.wire import BINARY, Answer, ask, dumped, frame, request

PAGE, SCRIPT = b"<!doctype html><title>netaclaw</title>", b"export const a = 1;\n" * 9_000


@pytest.fixture(params=WAYS)
async def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """host:port of a way in, whose gateway has a page and grants a request a second."""
    built = tmp_path / "built"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_bytes(PAGE)
    (built / "assets" / "main-1a2b.js").write_bytes(SCRIPT)
    monkeypatch.setattr(app, "Pages", functools.partial(pages.Pages, built))
    service = CaseService()
    service.play({"messages": ["one"]})
    async with open_front(service, requests_per_address=1) as front:
        if request.param == "bridge":
            yield front.ports["web"]
        else:
            async with open_envoy(front.address, front.ports, tmp_path) as web:
                yield web


async def get(door: str, path: str, host: str = "", verb: str = "GET") -> Answer:
    return await ask(door, request(path, [], {"host": host or door}, verb=verb))


async def test_the_page_is_served_with_its_policy_and_without_a_question_who_calls(door: str) -> None:
    for path in ["/", "/sessions/0190"] * 5:
        answer = await get(door, path)
        assert (answer.status, bytes(answer.body)) == (200, PAGE), dumped(answer)
        assert answer.header("content-security-policy") == pages._CONTENT_SECURITY_POLICY
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("cache-control") == "no-cache"
    script = await get(door, "/assets/main-1a2b.js")
    assert (script.status, bytes(script.body)) == (200, SCRIPT)
    assert "immutable" in (script.header("cache-control") or "")

    headers = {"host": door, "content-type": BINARY, "accept": BINARY}
    codes = [(await ask(door, request(CHAT, [frame(b"q")], headers))).code for _ in range(4)]
    assert codes[:2] == [0, 0], "reading the page took nothing from the limit"
    assert codes[-1] == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]


async def test_what_is_no_file_of_the_page_leads_nowhere(door: str) -> None:
    assert (await get(door, "/assets/missing.js")).status == 404
    assert (await get(door, "/../../etc/passwd")).status in (400, 404)
    assert (await get(door, CHAT)).status == 405, "a method is no page"
    foreign = await get(door, "/", host="evil.example")
    assert (foreign.status, PAGE in bytes(foreign.body)) == (403, False)


async def test_the_whole_suites_health_is_told_at_the_same_port(door: str) -> None:
    answer = await get(door, "/healthz")
    assert (answer.status, bytes(answer.body)) == (200, b'{"orchestrator": true, "store": true}\n')
