"""Only the network breaks: the page says so, catches up by itself, and shows nothing twice and nothing half."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse
from tests.browser.background import ROOT
from tests.browser.page_reading import batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, send, session_of, settled, turn
from tests.browser.test_page import half_way

CASES = ROOT / "tests" / "cases"
TREE = "**/netaclaw.session.v1.SessionService/GetSessionTree"
WATCH = "**/netaclaw.chat.v1.ChatService/Watch"


def cases(name: str) -> list[Any]:
    found: list[Any] = json.loads((CASES / name).read_text())["responses"]
    return found


def answer_with(tab: Page, method: str, case: Any) -> None:
    """Calls of a method get this answer from now on."""
    tab.unroute(method)
    body = bytes.fromhex(case["body_hex"])
    tab.route(method, lambda route: route.fulfill(status=case["http_status"], headers=case["headers"], body=body))


def change_tree(tab: Page, change: Callable[[GetSessionTreeResponse], None], times: int = 1) -> list[str]:
    """The next answers about the tree are another; the addresses that were asked."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        response = route.fetch()
        body = response.body()
        asked.append(route.request.url)
        if len(asked) <= times:
            size = int.from_bytes(body[1:5], "big")
            tree = GetSessionTreeResponse.FromString(body[5 : 5 + size])
            change(tree)
            changed = tree.SerializeToString()
            body = b"\0" + len(changed).to_bytes(4, "big") + changed + body[5 + size :]
        route.fulfill(response=response, body=body)

    tab.route(TREE, answer)
    return asked


def test_a_network_that_is_lost_is_told_from_an_agent_that_stopped(context: BrowserContext, suite: PageSuite) -> None:
    tab = context.new_page()
    tab.goto(suite.proxied)
    tab.locator("[data-workspace]").select_option("files")
    send(tab, "in parallel: WAITING for one; count the files")
    half_way(tab)
    suite.cut()
    bar = tab.locator("[data-connection]")
    expect(bar).to_contain_text("Reconnecting")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    suite.release()  # what ends meanwhile is seen afterwards
    suite.mend()
    expect(bar).to_be_hidden(timeout=20_000)
    settled(tab)
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["completed", "completed"]
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_two_cuts_back_to_back_double_nothing(context: BrowserContext, suite: PageSuite) -> None:
    tab = context.new_page()
    tab.goto(suite.proxied)
    tab.locator("[data-workspace]").select_option("files")
    send(tab, "WAITING for it")
    expect(tab.locator("[data-role=assistant] strong")).to_have_text("begins")
    for _ in range(2):
        suite.cut()
        suite.mend()
    suite.release()
    settled(tab)
    expect(tab.locator("[data-role=assistant] .prose")).to_have_text("This answer begins and ends.")
    assert shown(tab) == stored(suite.tree(session_of(tab)))


@pytest.mark.parametrize(("seq", "reads"), [(900, 2), (3, 1), (0, 1)])
def test_a_position_of_another_time_leads_to_the_stored_conversation(
    tab: Page, suite: PageSuite, seq: int, reads: int
) -> None:
    """Ahead of the log: everything is read again. Behind it: what comes again changes nothing."""
    begin(tab, suite)
    turn(tab, "in parallel: count the files; list the files")
    asked = change_tree(tab, lambda tree: setattr(tree.session, "seq", seq))
    tab.reload()
    settled(tab)
    turn(tab, "hello")
    assert len(asked) == reads
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_conversation_that_cannot_be_read_yet_is_not_shown_as_an_empty_one(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "list the files")
    whole = shown(tab)
    tab.route(TREE, lambda route: route.abort())
    tab.reload()
    expect(tab.locator("[data-connection]")).to_contain_text("Reconnecting")
    expect(tab.locator(".skeleton")).to_be_visible()
    expect(tab.get_by_text("Ask something.")).to_have_count(0)
    tab.unroute(TREE)
    settled(tab)
    assert shown(tab) == whole


@pytest.mark.parametrize("case", cases("grpcweb-01.json"), ids=["whole", "half", "nothing"])
def test_a_stream_that_ends_without_its_trailer_is_broken_and_resumed(
    context: BrowserContext, suite: PageSuite, case: Any
) -> None:
    """The page's own stream, so that it can be answered here."""
    tab = context.new_page()
    tab.add_init_script("delete window.SharedWorker")
    begin(tab, suite)
    send(tab, "in parallel: WAITING for one; count the files")
    half_way(tab)
    body = b"".join(bytes.fromhex(piece) for piece in case["body_chunks_hex"])
    answered: list[Route] = []

    def answer(route: Route) -> None:
        answered.append(route)
        if len(answered) < 3:
            route.fulfill(status=case["http_status"], headers=case["headers"], body=body)
        else:
            route.continue_()

    tab.route(WATCH, answer)
    tab.reload()
    half_way(tab)
    expect(tab.locator("[data-running=true]")).to_be_visible()
    suite.release()
    settled(tab)
    assert len(answered) >= 3
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_an_answer_without_its_trailer_is_not_taken_for_a_whole_one(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "list the files")
    whole = shown(tab)
    asked: list[Route] = []

    def answer(route: Route) -> None:
        asked.append(route)
        response = route.fetch()
        body = response.body()
        size = 5 + int.from_bytes(body[1:5], "big")
        route.fulfill(response=response, body=body[:size] if len(asked) == 1 else body)

    tab.route(TREE, answer)
    tab.reload()
    settled(tab)
    assert len(asked) == 2
    assert shown(tab) == whole


def test_code_and_words_of_an_error_arrive_as_they_were_meant(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    for case in cases("grpcweb-02.json"):
        answer_with(tab, "**/SetThinkingLevel", case)
        tab.get_by_label("Thinking").select_option("high")
        notice = tab.locator("[data-notice]").last
        notice.locator("summary").click()
        expect(notice).to_contain_text(case["expect"]["message"])
        assert int(notice.get_attribute("data-code") or 0) == case["expect"]["code"]
        notice.get_by_role("button", name="Dismiss").click()
        tab.get_by_label("Thinking").select_option("default")
        tab.locator("[data-notice]").get_by_role("button", name="Dismiss").click()
        expect(tab.locator("[data-notice]")).to_have_count(0)
