"""A session of hundreds of messages: it opens at its end, and all of it can be reached and stays as it was left."""

from __future__ import annotations

import grpc
import pytest
from playwright.sync_api import Page, expect

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from tests.browser.page_suite import PageSuite, settled

TURNS = 110
"""Two entries each: more than the page shows at once."""


@pytest.fixture(scope="module")
def long_session(suite: PageSuite) -> str:
    session_id = suite.session()
    with grpc.insecure_channel(suite.grpc_address) as channel:
        chat = ChatServiceStub(channel)
        chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="list the files"), timeout=20)
        for number in range(TURNS):
            chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=f"Message {number}."), timeout=20)
    return session_id


def opened(tab: Page, suite: PageSuite, session_id: str) -> None:
    tab.goto(f"{suite.url}/s/{session_id}")
    settled(tab)
    expect(tab.locator("[data-role=user]").last).to_be_in_viewport()
    expect(tab.locator("[data-latest]")).to_have_count(0)


def test_it_opens_at_its_end_with_few_messages_in_the_document(tab: Page, suite: PageSuite, long_session: str) -> None:
    opened(tab, suite, long_session)
    expect(tab.get_by_text(f"Message {TURNS - 1}.", exact=True)).to_be_in_viewport()
    assert tab.locator("article").count() < 60
    tab.locator("[data-composer]").fill("one more")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("one more", exact=True)).to_be_in_viewport()
    settled(tab)
    expect(tab.locator("[data-latest]")).to_have_count(0)


def test_a_reader_who_goes_up_stays_with_what_is_read(tab: Page, suite: PageSuite, long_session: str) -> None:
    opened(tab, suite, long_session)
    tab.mouse.move(700, 400)
    scroller = tab.locator("[data-region=conversation]")
    tops = []
    for _ in range(30):
        tab.mouse.wheel(0, -400)
        tab.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        tops.append(scroller.evaluate("(box) => box.scrollHeight - box.scrollTop"))
    assert tops == sorted(tops)
    expect(tab.locator("[data-latest]")).to_be_visible()
    tab.locator("[data-latest]").click()
    expect(tab.locator("[data-latest]")).to_have_count(0)


def test_the_tree_leads_to_its_first_message_and_what_was_opened_there_stays_open(
    tab: Page, suite: PageSuite, long_session: str
) -> None:
    opened(tab, suite, long_session)

    def to_the_beginning() -> None:
        tab.locator("[data-open-tree]").click()
        tab.locator("[data-tree-entry] .node").first.click()
        expect(tab.locator(".bubble", has_text="list the files")).to_be_in_viewport()

    to_the_beginning()
    call = tab.locator("[data-call]").first
    call.locator("summary").click()
    expect(call).to_have_attribute("open", "")
    tab.locator("[data-latest]").click()
    expect(tab.locator("[data-call]")).to_have_count(0)
    to_the_beginning()
    expect(tab.locator("[data-call]").first).to_have_attribute("open", "")
