"""Pictures of the page's main states for people to look at; each state is reached for real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ROOT
from tests.browser.page_suite import PageSuite, begin, page_suite, send, settled, turn

WHERE = os.environ.get("NETACLAW_SCREENSHOTS", "")
pytestmark = pytest.mark.skipif(not WHERE, reason="pictures are taken by make screenshots")


def test_the_main_states_are_pictured(browser: Browser, tmp_path: Path) -> None:
    with page_suite(tmp_path) as suite:
        for scheme in ("light", "dark"):
            for width in (1280, 390):
                _pictures(browser, suite, scheme, width)


def _pictures(browser: Browser, suite: PageSuite, scheme: Any, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme, locale="en-GB")
    tab = context.new_page()

    def picture(name: str) -> None:
        directory = ROOT / WHERE
        directory.mkdir(parents=True, exist_ok=True)
        tab.screenshot(path=directory / f"{name}-{scheme}-{width}.png", animations="disabled")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width

    suite.hold()
    begin(tab, suite)
    picture("empty")
    send(tab, "in parallel: WAITING for the first half; count the files; FAIL-400 on purpose")
    _half_way(tab)
    picture("running")
    suite.release()
    settled(tab)
    tab.locator("[data-batch]").scroll_into_view_if_needed()
    picture("ended")
    tab.locator("[data-task] .toggle").nth(1).click()
    tab.locator("[data-task]").nth(1).get_by_role("button", name="Transcript").click()
    expect(tab.get_by_role("dialog").locator("[data-call]")).to_have_count(1)
    picture("transcript")
    tab.keyboard.press("Escape")
    turn(tab, "list the files")
    tab.get_by_role("button", name="Edit").last.click()
    tab.get_by_label("Edit").fill("hello")
    tab.get_by_role("button", name="Send as a new branch").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    tab.get_by_role("button", name="Open the tree").click()
    picture("tree")
    for name, heading in (("agents/new", "Agents"), ("tools", "Tools")):
        tab.goto(f"{suite.url}/{name}")
        expect(tab.get_by_role("heading", name=heading, level=1)).to_be_visible()
        picture(name.split("/")[0])
    context.close()


def _half_way(tab: Page) -> None:
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    expect(tab.locator("[data-task][data-state=failed]")).to_have_count(1)
