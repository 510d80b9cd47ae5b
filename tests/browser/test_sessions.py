"""The list of sessions: found, renamed, deleted, and current for those that are not open."""

from __future__ import annotations

import grpc
from playwright.sync_api import BrowserContext, Page, expect

from netaclaw.chat.v1.chat_service_pb2 import ChatRequest
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from netaclaw.session.v1.session_command_service_pb2 import DeleteSessionRequest
from netaclaw.session.v1.session_command_service_pb2_grpc import SessionCommandServiceStub
from tests.browser.page_suite import PageSuite, begin, session_of, turn
from tests.browser.test_questions import ASK


def row(tab: Page, session_id: str):  # type: ignore[no-untyped-def]  # a Locator
    return tab.locator(f"[data-session='{session_id}']")


def start(suite: PageSuite, session_id: str, content: str) -> None:
    """Begin a turn as another client does."""
    with grpc.insecure_channel(suite.grpc_address) as channel:
        next(ChatServiceStub(channel).Chat(ChatRequest(session_id=session_id, content=content)))


def test_marks_of_sessions_that_are_not_open_are_current(tab: Page, suite: PageSuite) -> None:
    tab.goto(suite.url)
    expect(tab.locator("[data-workspace]")).to_be_visible()
    working, asking = suite.session(), suite.session()
    start(suite, working, "WAITING for it")
    start(suite, asking, ASK)
    expect(row(tab, working).locator("[data-mark=running]")).to_have_count(1)
    expect(row(tab, asking).locator("[data-mark=needs-you]")).to_be_visible()
    suite.release()
    expect(row(tab, working).locator("[data-mark=running]")).to_have_count(0)
    expect(row(tab, working)).to_contain_text("WAITING for it")


def test_what_happened_while_the_network_was_away_is_read(tab: Page, suite: PageSuite) -> None:
    gone, asking = suite.session(), suite.session()
    tab.goto(suite.proxied)
    expect(row(tab, gone)).to_be_visible()
    suite.cut()
    with grpc.insecure_channel(suite.grpc_address) as channel:
        SessionCommandServiceStub(channel).DeleteSession(DeleteSessionRequest(session_id=gone))
    start(suite, asking, ASK)
    suite.mend()
    expect(row(tab, asking).locator("[data-mark=needs-you]")).to_be_visible(timeout=20_000)
    expect(row(tab, gone)).to_have_count(0)


def test_a_page_that_is_opened_before_the_suite_answers_fills_when_it_does(
    context: BrowserContext, suite: PageSuite
) -> None:
    session_id = suite.session()
    tab = context.new_page()
    for method in ("ListWorkspaces", "ListSessions"):
        tab.route(f"**/{method}", lambda route: route.abort())
    tab.goto(suite.url)
    expect(tab.get_by_label("Message", exact=True)).to_be_visible()
    tab.unroute_all()
    expect(tab.locator("[data-workspace]")).to_be_visible(timeout=10_000)
    expect(row(tab, session_id)).to_be_visible(timeout=10_000)


def test_sessions_are_found_renamed_and_deleted(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    row = tab.locator(f"[data-session='{session_of(tab)}']")
    row.get_by_role("button").click()
    tab.get_by_role("menuitem", name="Rename").click()
    tab.locator("[data-rename]").fill("A name like no other")
    tab.keyboard.press("Enter")
    expect(row).to_contain_text("A name like no other")
    tab.get_by_role("searchbox", name="Search sessions").fill("like no other")
    expect(tab.locator("[data-session]")).to_have_count(1)
    row.get_by_role("button").click()
    tab.get_by_role("menuitem", name="Delete").click()
    tab.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    expect(tab).to_have_url(f"{suite.url}/")
