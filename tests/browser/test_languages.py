"""Chinese everywhere: no English of the page's own is left in any main state."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.page_suite import PageSuite, strict_context
from tests.browser.states_of_the_page import main_states

NAMES = {"netaclaw", "English", "tok", "token", "API"}
WORD = re.compile(r"[A-Za-z]{2,}")
IDENTIFIER = re.compile(r"\b\w+(?:[._/-]\w+)+\b")


def interface_texts(tab: Page) -> list[str]:
    """What the page itself says: visible texts and names for screen readers, but not what people, models and tools
    have written, which is marked as not to be translated."""
    found: list[str] = tab.evaluate(
        """() => {
            const texts = [];
            const names = [...document.querySelectorAll('[translate=no]:not(:has(kbd))')]
                .map(({ textContent }) => textContent.trim());
            names.sort((one, other) => other.length - one.length); // a name may stand in another one
            const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            for (let node = walker.nextNode(); node; node = walker.nextNode())
                if (!node.parentElement.closest('[translate=no], script, style'))
                    texts.push(node.textContent.trim());
            for (const element of document.querySelectorAll('[aria-label], [placeholder], [title]'))
                for (const name of ['aria-label', 'placeholder', 'title'])
                    texts.push(element.getAttribute(name) ?? '');
            return texts.map((text) => names.reduce((left, each) => (each ? left.replaceAll(each, '') : left), text));
        }"""
    )
    return found


def test_no_english_is_left_in_the_chinese_page(browser: Browser, suite: PageSuite) -> None:
    left: set[str] = set()
    with strict_context(browser, suite, locale="zh-CN") as context:
        tab = context.new_page()
        tab.goto(suite.url)
        expect(tab.locator("html")).to_have_attribute("lang", "zh-CN")
        for state in main_states(tab, suite):
            for text in interface_texts(tab):
                words = set(WORD.findall(IDENTIFIER.sub("", text))) - NAMES
                left |= {f"{state}: {text}"} if words else set()
    assert not left, "\n".join(sorted(left))
