"""A whole delegated turn by keyboard alone, and keys that belong to somebody else."""

from __future__ import annotations

from playwright.sync_api import CDPSession, Page, expect

from tests.browser.page_reading import batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, session_of, settled
from tests.browser.test_questions import ASK, in_state

MOST_TABS = 400
"""Past a list of sessions that other tests have made long, two a session."""


def focus(tab: Page, selector: str, backwards: bool = False) -> None:
    """Tab on until something that fits has the focus; nothing else moves it."""
    for _ in range(MOST_TABS):
        if tab.evaluate("selector => document.activeElement?.matches(selector) ?? false", selector):
            return
        tab.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"{selector} is not reached by Tab")


def type_and_send(tab: Page, text: str) -> None:
    focus(tab, "textarea")
    tab.keyboard.type(text)
    tab.keyboard.press("Enter")


def test_a_whole_delegated_turn_is_driven_by_keyboard_alone(tab: Page, suite: PageSuite) -> None:
    tab.goto(suite.url)
    expect(tab.locator("[data-workspace]")).to_be_visible()
    focus(tab, "[data-workspace]")
    tab.keyboard.type("files")
    type_and_send(tab, "hello")
    settled(tab)
    assert suite.tree(session_of(tab)).session.workspace == "files"
    type_and_send(tab, "in parallel: WAITING for one; WAITING for two")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(2)
    focus(tab, "[data-task] .toggle", backwards=True)
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-task] .toggle").last).to_have_attribute("aria-expanded", "true")
    focus(tab, "[data-task]:last-child [aria-label^='Stop']")
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-task]").last).to_have_attribute("data-state", "cancelled")
    suite.release()
    settled(tab)
    assert [state for _, state in batches(tab)[0]["tasks"]] == ["completed", "cancelled"]
    type_and_send(tab, ASK)
    in_state(tab, "open")
    focus(tab, "[data-clarify] button", backwards=True)
    tab.keyboard.press("1")
    in_state(tab, "answered")
    settled(tab)
    expect(tab.locator("[data-clarify]")).to_contain_text("red")
    focus(tab, "[data-role=user] [aria-label=Edit]", backwards=True)
    tab.keyboard.press("Enter")
    tab.keyboard.press("ControlOrMeta+a")
    tab.keyboard.type("list the files")
    focus(tab, ".edit .primary")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    focus(tab, "[aria-label='Previous version']", backwards=True)
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_the_focus_is_never_lost(tab: Page, suite: PageSuite) -> None:
    """What had it goes: a button that stopped a child, a choice that was made."""
    begin(tab, suite)
    type_and_send(tab, "in parallel: WAITING for one; WAITING for two")
    expect(tab.locator("[data-task][data-state=running]")).to_have_count(2)
    focus(tab, "[data-task] [aria-label^='Stop']", backwards=True)
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-task]").last).to_have_attribute("data-state", "cancelled")
    assert tab.evaluate("document.activeElement !== document.body")
    suite.release()
    settled(tab)
    type_and_send(tab, ASK)
    in_state(tab, "open")
    focus(tab, "[data-clarify] button", backwards=True)
    tab.keyboard.press("2")
    in_state(tab, "answered")
    assert tab.evaluate("document.activeElement !== document.body")


def compose(cdp: CDPSession, text: str) -> None:
    cdp.send("Input.imeSetComposition", {"text": text, "selectionStart": len(text), "selectionEnd": len(text)})


def test_enter_that_chooses_a_candidate_does_not_send(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    field = tab.get_by_label("Message", exact=True)
    field.focus()
    cdp = tab.context.new_cdp_session(tab)
    compose(cdp, "ni hao")
    tab.keyboard.press("Enter")
    choosing = {"key": "Process", "code": "Enter", "windowsVirtualKeyCode": 229}
    cdp.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **choosing})
    expect(tab.locator("[data-role=user]")).to_have_count(0)
    cdp.send("Input.insertText", {"text": "你好"})
    # Some browsers end the composition first and tell of the key after it, as an Enter with key code 229.
    field.evaluate(
        """(field) => {
            field.dispatchEvent(new CompositionEvent('compositionend', { data: '你好' }));
            const key = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true, keyCode: 229 });
            field.dispatchEvent(key);
        }"""
    )
    expect(tab.locator("[data-role=user]")).to_have_count(0)
    expect(tab).to_have_url(f"{suite.url}/")
    assert "你好" in field.input_value()
    tab.wait_for_timeout(60)  # a press of its own comes later than the one that chose
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-role=user]")).to_contain_text("你好")
    settled(tab)
