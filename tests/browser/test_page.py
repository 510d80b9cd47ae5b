"""The web page in a real browser: what it shows is what is stored, live and after every reload."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.page_reading import batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, send, session_of, settled, turn, until

PARALLEL = "in parallel: count the files; find the 3 largest files; count the lines per language"


@pytest.mark.parametrize("door", ["gateway", "envoy"])
def test_each_card_stands_at_its_own_message_live_and_after_a_reload(tab: Page, suite: PageSuite, door: str) -> None:
    begin(tab, suite, door)
    for text in ("list the files", PARALLEL, "hello", "list the files", "delegate: find the 3 largest files"):
        turn(tab, text)
    tree = stored(suite.tree(session_of(tab)))
    live = shown(tab)
    assert live == tree
    with_cards = [n for n, message in enumerate(live) if message["batches"]]
    users = [n for n, message in enumerate(live) if message["role"] == "user"]
    assert [sum(user < n for user in users) for n in with_cards] == [2, 5]
    tab.reload()
    settled(tab)
    assert shown(tab) == tree


def test_a_reload_in_the_middle_shows_the_same_and_goes_on(context: BrowserContext, suite: PageSuite) -> None:
    tab = context.new_page()
    begin(tab, suite)
    send(tab, "in parallel: WAITING for one; count the files")
    half_way(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    other = context.new_page()
    other.goto(tab.url)
    tab.reload()
    for each in (tab, other):
        half_way(each)
        expect(each.locator("[data-mark=running]")).to_have_count(1)
        each.locator("[data-task][data-state=running] .toggle").click()
        expect(each.locator("[data-task][data-state=running] .prose strong")).to_have_text("begins")
    suite.release()
    for each in (tab, other):
        settled(each)
        expect(each.locator("[data-mark=running]")).to_have_count(0)
        assert shown(each) == stored(suite.tree(session_of(tab)))
    assert all(state == "completed" for batch in batches(tab) for _, state in batch["tasks"])


def test_one_child_is_stopped_and_its_sibling_and_the_turn_go_on(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "in parallel: WAITING for one; WAITING for two")
    running = tab.locator("[data-task][data-state=running]")
    expect(running).to_have_count(2)
    tab.locator("[data-task]").first.get_by_role("button", name="Stop").click()
    expect(tab.locator("[data-task]").first).to_have_attribute("data-state", "cancelled")
    expect(running).to_have_count(1)
    suite.release()
    settled(tab)
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["cancelled", "completed"]
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_the_whole_turn_is_stopped(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "in parallel: WAITING for one; WAITING for two")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(2)
    tab.locator("[data-stop]").click()
    settled(tab)
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["cancelled", "cancelled"]
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_message_sent_meanwhile_waits_with_its_receipt_and_is_taken_in(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "delegate: WAITING for one")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    for text in ("list the files", "never mind"):
        tab.locator("textarea").fill(text)
        tab.keyboard.press("Enter")
        expect(tab.locator("[data-receipt=queued]", has_text=text)).to_be_visible()
    tab.locator("[data-receipt]", has_text="never mind").get_by_role("button", name="Take back").click()
    expect(tab.locator("[data-receipt]")).to_have_count(1)
    suite.release()
    expect(tab.locator("[data-role=user]")).to_have_count(2)
    expect(tab.locator("[data-receipt]")).to_have_count(0)
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_child_s_transcript_opens_beside_the_conversation(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, PARALLEL)
    tab.locator("[data-task] .toggle").first.click()
    opener = tab.get_by_role("button", name="Transcript").first
    opener.click()
    sheet = tab.get_by_role("dialog")
    expect(sheet.locator("[data-role=user]")).to_contain_text("count the files")
    expect(sheet.locator("[data-call]")).to_have_count(1)
    expect(sheet.locator("[data-role=assistant]").last).to_contain_text("12 files")
    tab.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(opener).to_be_focused()


def test_a_message_edited_becomes_a_branch_and_the_old_one_is_one_press_away(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, PARALLEL)
    first = shown(tab)
    tab.get_by_role("button", name="Edit").last.click()
    tab.get_by_role("textbox", name="Edit").fill("list the files")
    tab.get_by_role("button", name="Send as a new branch").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    assert batches(tab) == []
    tab.get_by_role("button", name="Previous version").click()
    expect(tab.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    assert shown(tab) == first == stored(suite.tree(session_of(tab)))


def test_a_branch_that_is_left_goes_on_and_is_found_complete(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "list the files")
    tab.locator("[data-edit]").last.click()
    tab.get_by_role("textbox", name="Edit").fill("in parallel: WAITING for one; count the files")
    tab.get_by_role("button", name="Send as a new branch").click()
    half_way(tab)
    tab.get_by_role("button", name="Previous version").click()
    expect(tab.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    expect(tab.locator("[data-running=true]")).to_be_visible()
    assert batches(tab) == []
    suite.release()
    settled(tab)
    seen = shown(tab)
    until(lambda: seen == stored(suite.tree(session_of(tab))))  # the leaf follows the reader, and stays
    tab.get_by_role("button", name="Next version").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["completed", "completed"]
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_what_a_reader_has_opened_and_begun_to_write_stays(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    first = tab.url
    send(tab, "in parallel: WAITING for one; count the files")
    half_way(tab)
    opened = tab.locator("[data-task] .toggle").first
    opened.click()
    tab.get_by_label("Message", exact=True).fill("not sent yet")
    suite.release()
    settled(tab)
    expect(opened).to_have_attribute("aria-expanded", "true")
    tab.get_by_role("link", name="New chat").click()
    expect(tab.get_by_label("Message", exact=True)).to_have_value("")
    tab.goto(first)
    expect(tab.get_by_label("Message", exact=True)).to_have_value("not sent yet")


def test_hostile_text_runs_nothing_and_asks_no_other_site(tab: Page, suite: PageSuite) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    begin(tab, suite)
    turn(tab, "HOSTILE")
    answer = tab.locator("[data-role=assistant] .prose")
    expect(answer).to_contain_text("picture")
    assert answer.locator("img, script, iframe, [style], [onerror], a:not([href^=http])[href]").count() == 0
    assert tab.evaluate("window.hurt") is None
    assert [url for url in asked if not url.startswith(suite.url)] == []


def test_a_lost_connection_is_told_from_an_agent_that_stopped(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "delegate: WAITING for one")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    tab.context.set_offline(True)
    expect(tab.locator("[data-connection]")).to_contain_text("offline")
    tab.context.set_offline(False)
    expect(tab.locator("[data-connection]")).to_be_hidden(timeout=20_000)
    suite.release()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def half_way(tab: Page) -> None:
    """One child waits, the other has ended."""
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    expect(tab.locator("[data-task][data-state=completed]")).to_have_count(1)
