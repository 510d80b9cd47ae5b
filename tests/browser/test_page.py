"""The web page in a real browser: what it shows is what is stored, live and after every reload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import ROOT
from tests.browser.page_suite import (
    PageSuite,
    begin,
    page_suite,
    send,
    session_of,
    settled,
    shown,
    stored,
    turn,
)

PARALLEL = "in parallel: count the files; find the 3 largest files; count the lines per language"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSuite]:
    with page_suite(tmp_path_factory.mktemp("page-suite")) as running:
        yield running


@pytest.fixture
def context(browser: Browser, suite: PageSuite) -> Iterator[BrowserContext]:
    """A browser of its own, in which nothing may break a policy or throw."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    wrong: list[str] = []
    context.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    suite.hold()
    yield context
    suite.release()
    context.close()
    assert [line for line in wrong if "ERR_" not in line] == []


@pytest.fixture
def tab(context: BrowserContext) -> Page:
    return context.new_page()


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
    tab.get_by_label("Edit").fill("list the files")
    tab.get_by_role("button", name="Send as a new branch").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    assert batches(tab) == []
    tab.get_by_role("button", name="Previous version").click()
    expect(tab.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    assert shown(tab) == first == stored(suite.tree(session_of(tab)))


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


def test_an_agent_is_made_changed_and_published(tab: Page, suite: PageSuite) -> None:
    tab.goto(f"{suite.url}/agents/new")
    tab.get_by_label("Name", exact=True).fill("Reader")
    tab.get_by_role("button", name="Save").click()
    made = tab.locator("[data-agent]", has_text="Reader")
    expect(made).to_contain_text("not published")
    tab.get_by_label("Write nothing").check()
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("[data-tool=write_file] .badge").first).to_have_text("disabled")
    tab.get_by_role("button", name="Publish").click()
    expect(made).not_to_contain_text("not published")
    tab.reload()
    expect(tab.get_by_label("Write nothing")).to_be_checked()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_serious(browser: Browser, suite: PageSuite, scheme: Any, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, locale="en-GB")
    tab = context.new_page()
    begin(tab, suite)
    found = {"empty": axe(tab)}
    turn(tab, PARALLEL)
    tab.locator("[data-task] .toggle").first.click()
    found["chat"] = axe(tab)
    for page in ("agents/new", "tools"):
        tab.goto(f"{suite.url}/{page}")
        expect(tab.locator("h1")).to_be_visible()
        found[page] = axe(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
    assert {page: lines for page, lines in found.items() if lines} == {}


def axe(tab: Page) -> list[str]:
    """What axe calls serious or critical."""
    tab.evaluate(AXE.read_text())
    result: dict[str, Any] = tab.evaluate("axe.run()")
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in result["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def half_way(tab: Page) -> None:
    """One child waits, the other has ended."""
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    expect(tab.locator("[data-task][data-state=completed]")).to_have_count(1)


def batches(tab: Page) -> list[dict[str, Any]]:
    """The page's cards, in order."""
    return [batch for message in shown(tab) for batch in message["batches"]]
