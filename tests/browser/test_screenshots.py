"""Pictures of the page's main states for people to look at; each state is reached for real."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Browser

from tests.browser.background import ROOT
from tests.browser.page_suite import PageSuite, strict_context
from tests.browser.states_of_the_page import looks, main_states

WHERE = os.environ.get("NETACLAW_SCREENSHOTS", "")
pytestmark = pytest.mark.skipif(not WHERE, reason="pictures are taken by make screenshots")


def test_the_main_states_are_pictured(browser: Browser, suite: PageSuite) -> None:
    directory = ROOT / WHERE
    directory.mkdir(parents=True, exist_ok=True)
    with strict_context(browser, suite) as context:
        tab = context.new_page()
        for state in main_states(tab, suite):
            for look in looks(tab, state):
                tab.screenshot(path=directory / f"{state}-{look}.png", animations="disabled")
