"""The page's main states, each reached for real; for tests that look at all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Literal

from playwright.sync_api import Page, expect

from tests.browser.page_suite import PageSuite, begin, send, settled, turn
from tests.browser.test_questions import in_state
from tests.browser.test_reading import READING
from tests.fakes.openai_server import Reply, Text

HEIGHT = 844
RUNNING = "in parallel: check every page of the report; count the files; look the exchange rate up"


AT = {
    "running": "[data-batch]",
    "ended": "[data-batch]",
    "question": "[data-clarify]",
    "tools-used": "[data-role=user]",
    "editing": ".edit",
}
"""What a state is about: the last one is brought into view, since a page of another width scrolls elsewhere."""
_SETTLED = """() => Promise.all(document.getAnimations()
    .filter((each) => each.effect.getComputedTiming().iterations < Infinity)
    .map((each) => each.finished.catch(() => undefined)))"""
"""Colours of one theme fade into those of the other."""
_SCHEMES: tuple[Literal["dark"], Literal["light"]] = ("dark", "light")


def main_states(tab: Page, suite: PageSuite) -> Iterator[str]:
    """Bring the page into each state in turn, in any language; the state's name."""
    suite.hold()
    begin(tab, suite)
    yield "empty"
    send(tab, RUNNING)
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(1)
    expect(tab.locator("[data-task][data-state=failed]")).to_have_count(1)
    yield "running"
    suite.release()
    settled(tab)
    yield "ended"
    tab.locator("[data-task] .toggle").nth(1).click()
    tab.locator("[data-task]").nth(1).locator("[data-transcript]").click()
    expect(tab.get_by_role("dialog").locator("[data-call]")).to_have_count(1)
    yield "transcript"
    tab.keyboard.press("Escape")
    yield from _turns(tab)
    yield from _reading(tab, suite)
    yield from _pages(tab, suite)


def _turns(tab: Page) -> Iterator[str]:
    turn(tab, "plan: look at the files; count them; say what was found")
    send(tab, "ask: Which part should come first? | the figures | the summary")
    in_state(tab, "open")
    yield "question"
    tab.locator("[data-clarify] button").first.click()
    settled(tab)
    turn(tab, "list the files")
    tab.locator(".calls [data-call] summary").last.click()
    yield "tools-used"
    tab.locator("[data-edit]").last.click()
    yield "editing"
    tab.locator(".edit textarea").fill("hello")
    tab.locator(".edit .primary").click()
    expect(tab.locator(".pager")).to_contain_text("2/2")
    settled(tab)
    tab.locator("[data-open-tree]").click()
    expect(tab.get_by_role("dialog")).to_be_visible()
    yield "tree"
    tab.keyboard.press("Escape")


def _reading(tab: Page, suite: PageSuite) -> Iterator[str]:
    suite.model.special["READING"] = Reply([Text(READING)])
    turn(tab, "READING")
    expect(tab.locator(".katex-html")).to_have_count(2)
    expect(tab.locator(".hl-keyword").first).to_be_visible()
    yield "reading"
    tab.locator("[data-meter]").click()
    expect(tab.locator("[data-context] dl > div")).to_have_count(4)
    yield "meter"
    tab.keyboard.press("Escape")
    tab.keyboard.press("Control+k")
    expect(tab.locator("[data-palette] [role=option]").first).to_be_visible()
    yield "palette"
    tab.keyboard.press("Escape")
    expect(tab.locator("[data-palette]")).to_have_count(0)
    tab.locator("[data-composer]").blur()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog")).to_be_visible()
    yield "keys"
    tab.keyboard.press("Escape")


def _pages(tab: Page, suite: PageSuite) -> Iterator[str]:
    tab.goto(f"{suite.url}/agents/new")
    tab.locator("form input[required]").fill(f"Careful reader {uuid.uuid4().hex[:4]}")
    tab.locator("form [type=checkbox]").nth(2).check()
    tab.locator("form .bar .primary").click()
    expect(tab.locator("[data-tool]").first).to_be_visible()
    yield "agent"
    tab.locator("form .bar [aria-expanded]").click()
    tab.locator("[data-composer]").fill("hello")
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-tryout] [data-role=assistant] .prose")).to_be_visible()
    settled(tab)
    yield "tryout"
    tab.goto(f"{suite.url}/tools")
    expect(tab.locator("[data-tool]").first).to_be_visible()
    yield "tools"
    tab.goto(f"{suite.url}/s/{'0' * 8}-0000-7000-8000-{'0' * 12}")
    expect(tab.locator("[data-status=failed] h2")).to_be_visible()
    yield "missing"


def looks(tab: Page, state: str) -> Iterator[str]:
    """The state that the page is in, in both themes and at both widths; each look's name."""
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": HEIGHT})
        for scheme in _SCHEMES:
            tab.emulate_media(color_scheme=scheme)
            tab.evaluate(_SETTLED)
            if state in AT:
                tab.locator(AT[state]).last.evaluate("element => element.scrollIntoView({ block: 'center' })")
            yield f"{scheme}-{width}"
            assert tab.evaluate("document.documentElement.scrollWidth") <= width
            assert tab.evaluate("document.documentElement.scrollHeight") <= HEIGHT, "only its parts scroll"
