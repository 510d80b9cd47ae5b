"""axe on every page and main state, in both themes and at both widths."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.background import ROOT
from tests.browser.page_suite import PageSuite, strict_context
from tests.browser.states_of_the_page import looks, main_states

AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"


LOOKS = ("dark-390", "light-1280")
"""Contrast depends on the theme and structure on the width, so each is seen once."""


@pytest.mark.timeout(400)
def test_axe_finds_nothing_serious(browser: Browser, suite: PageSuite) -> None:
    found: dict[str, list[str]] = {}
    with strict_context(browser, suite) as context:
        tab = context.new_page()
        for state in main_states(tab, suite):
            for look in looks(tab, state):
                if look in LOOKS:
                    found[f"{state} {look}"] = axe(tab)
    assert {state: lines for state, lines in found.items() if lines} == {}


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
