"""Services die in the middle of what the page shows, and the page tells what became of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.page_reading import batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, page_suite, send, session_of, settled, strict_context, turn
from tests.browser.test_page import half_way
from tests.browser.test_questions import ASK, choose, in_state


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSuite]:
    """A suite of this module's own. It gives up where a service dies five times within a minute."""
    with page_suite(tmp_path_factory.mktemp("breakable")) as running:
        yield running


@pytest.fixture
def context(browser: Browser, breakable: PageSuite) -> Iterator[BrowserContext]:
    with strict_context(browser, breakable) as context:
        yield context


def same_as_stored(tab: Page, suite: PageSuite) -> None:
    """Now, and after a reload."""
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    tab.reload()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def record_connection(tab: Page) -> None:
    """From now on the page remembers what it said about its connection."""
    tab.evaluate(
        """() => {
            window.said = [];
            const bar = document.querySelector('[data-connection]');
            new MutationObserver(() => window.said.push(bar.textContent.trim()))
                .observe(bar, { childList: true, subtree: true, characterData: true });
        }"""
    )


def connection_said(tab: Page) -> str:
    return str(tab.evaluate("window.said.join(' ')"))


def test_a_gateway_that_is_restarted_in_the_middle_is_told_and_forgotten(
    context: BrowserContext, breakable: PageSuite
) -> None:
    tab = context.new_page()
    begin(tab, breakable)
    send(tab, "in parallel: WAITING for one; count the files")
    half_way(tab)
    record_connection(tab)
    breakable.kill("gateway")
    tab.wait_for_function("window.said.length")
    expect(tab.locator("[data-connection]")).to_be_hidden(timeout=20_000)
    assert "Reconnecting" in connection_said(tab)
    half_way(tab)
    breakable.release()
    settled(tab)
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["completed", "completed"]
    same_as_stored(tab, breakable)
    turn(tab, "list the files")
    assert shown(tab) == stored(breakable.tree(session_of(tab)))


def test_an_orchestrator_that_dies_in_the_middle_is_replaced_and_everything_goes_on(
    context: BrowserContext, breakable: PageSuite
) -> None:
    working, asking = context.new_page(), context.new_page()
    begin(working, breakable)
    send(working, "in parallel: WAITING for one; count the files")
    half_way(working)
    begin(asking, breakable)
    send(asking, ASK)
    in_state(asking, "open")
    breakable.kill("orchestrator")
    asking.reload()
    in_state(asking, "open")
    choose(asking, "blue")
    settled(asking)
    in_state(asking, "answered")
    breakable.release()
    settled(working)
    assert [state for _, state in batches(working)[0]["tasks"]] == ["completed", "completed"]
    for tab in (working, asking):
        same_as_stored(tab, breakable)


def test_an_answer_whose_processes_keep_dying_is_interrupted_and_can_be_tried_again(
    context: BrowserContext, breakable: PageSuite
) -> None:
    writing, asking = context.new_page(), context.new_page()
    begin(writing, breakable)
    turn(writing, "hello")
    send(writing, "WAITING for it")
    answer = writing.locator("[data-role=assistant]").last
    expect(answer).to_contain_text("begins")
    begin(asking, breakable)
    send(asking, ASK)
    in_state(asking, "open")
    for attempt in (2, 3):
        breakable.kill("orchestrator")
        expect(answer).to_contain_text(f"Attempt {attempt}", timeout=30_000)
        expect(answer).to_contain_text("begins")
    breakable.kill("orchestrator")
    expect(answer).to_contain_text("Interrupted", timeout=30_000)
    settled(writing)
    expect(answer).to_contain_text("This answer begins")
    settled(asking)
    in_state(asking, "closed")
    for tab in (writing, asking):
        same_as_stored(tab, breakable)
        expect(tab.locator("[data-mark=running]")).to_have_count(0)
    breakable.release()
    writing.get_by_role("button", name="Try again").click()
    expect(writing.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(writing)
    expect(writing.locator("[data-role=assistant]").last).to_contain_text("and ends.")
    assert shown(writing) == stored(breakable.tree(session_of(writing)))
