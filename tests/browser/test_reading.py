"""What a reader sees of texts: colours, mathematics, copies; what a first visit loads; keys, palette and meter."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.browser.page_suite import PageSuite, begin, session_of, settled, turn
from tests.fakes.openai_server import Reply, Text

MOST_BYTES = 300_000
"""A first visit loads less than this, code highlighting and mathematics not among it."""
READING = r"""Some code:

```python
def f(a):  # why
    return "<b>" + str(a)
```

| a | b |
|---|---|
| 1 | 2 |

It is $x^2$, and

$$
\int_0^1 \frac{a}{\href{https://evil.example}{b}} \includegraphics{https://evil.example/a.png}
$$
"""


@pytest.fixture(autouse=True)
def reading(suite: PageSuite) -> None:
    suite.model.special["READING"] = Reply([Text(READING)])


def test_code_and_mathematics_are_drawn_under_the_policy_and_ask_no_other_site(tab: Page, suite: PageSuite) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    begin(tab, suite)
    turn(tab, "READING")
    answer = tab.locator("[data-role=assistant] .prose")
    expect(answer.locator(".hl-keyword").first).to_have_text("def")
    expect(answer.locator(".katex-html")).to_have_count(2)
    assert answer.locator("img, script, iframe, a[href]").count() == 0
    assert [url for url in asked if not url.startswith(suite.url)] == []
    tab.reload()
    expect(answer.locator(".katex-html")).to_have_count(2)
    expect(answer.locator(".hl-keyword").first).to_be_visible()


def test_code_and_tables_are_copied_as_they_stand(tab: Page, suite: PageSuite) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    begin(tab, suite)
    turn(tab, "READING")
    tab.locator(".code button.copy").click()
    expect(tab.locator(".code button.copy")).to_have_text("Copied")
    assert tab.evaluate("navigator.clipboard.readText()") == 'def f(a):  # why\n    return "<b>" + str(a)\n'
    tab.locator(".table button.copy").click()
    expect(tab.locator(".table button.copy")).to_have_text("Copied")
    assert tab.evaluate("navigator.clipboard.readText()") == "a\tb\n1\t2"


def test_a_first_visit_with_an_answer_loads_less_than_300_kb(browser: Browser, suite: PageSuite) -> None:
    first = browser.new_context()
    page = first.new_page()
    begin(page, suite)
    turn(page, "hello")
    address = f"{suite.url}/s/{session_of(page)}"
    first.close()
    context = browser.new_context(locale="en-GB")
    loaded: list[Response] = []
    context.on("response", lambda response: loaded.append(response))  # noqa: PLW0108  a builtin cannot be wrapped
    visit = context.new_page()
    visit.goto(address)
    expect(visit.locator("[data-role=assistant] .prose")).to_be_visible()
    visit.wait_for_load_state("load")
    files = [response for response in loaded if response.request.method == "GET"]
    sizes = {response.url.removeprefix(suite.url): response.request.sizes()["responseBodySize"] for response in files}
    context.close()
    assert any("client-" in name for name in sizes), sizes
    assert sum(sizes.values()) < MOST_BYTES, sizes


def test_the_palette_finds_commands_and_sessions_and_gives_the_focus_back(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "a title to be found")
    session = session_of(tab)
    tab.keyboard.press("Control+k")
    tab.keyboard.type("agents")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", name="Agents", level=1)).to_be_visible()
    tab.keyboard.press("Control+k")
    tab.keyboard.type("to be found")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(f"{suite.url}/s/{session}")
    tab.locator("[data-composer]").focus()
    tab.keyboard.press("Control+k")
    expect(tab.get_by_role("combobox", name="Commands and sessions")).to_be_focused()
    tab.keyboard.press("Escape")
    expect(tab.locator("[data-composer]")).to_be_focused()


def test_messages_are_walked_through_by_keys(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "hello again")
    tab.keyboard.press("F6")
    expect(tab.locator("[data-region=sessions] :focus")).to_have_count(1)
    tab.keyboard.press("k")
    expect(tab.locator("article:focus")).to_have_attribute("data-role", "assistant")
    tab.keyboard.press("k")
    tab.keyboard.press("k")
    tab.keyboard.press("k")
    expect(tab.locator("article:focus .bubble, article:focus [data-content]").first).to_be_visible()
    tab.keyboard.press("j")
    focused = tab.locator("article:focus")
    expect(focused).to_have_attribute("data-role", "assistant")
    tab.keyboard.press("c")
    expect(tab.locator("[data-composer]")).to_be_focused()
    expect(tab.get_by_text("Continues from:")).to_be_visible()
    tab.locator("[data-composer]").blur()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog", name="Keys")).to_be_visible()


def test_the_last_message_is_edited_versions_changed_and_a_turn_stopped_by_keys(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "list the files")
    tab.locator("[data-composer]").press("ArrowUp")
    field = tab.locator(".edit textarea")
    expect(field).to_have_value("list the files")
    field.fill("WAITING for a key")
    tab.locator(".edit .primary").click()
    expect(tab.locator("[data-running=true]")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.locator("[data-running=true]")).to_be_visible()
    tab.keyboard.press("Escape")
    tab.keyboard.press("Escape")
    settled(tab)
    expect(tab.locator(".pager")).to_contain_text("2/2")
    tab.locator("[data-composer]").blur()
    tab.keyboard.press("k")
    expect(tab.locator("article:focus")).to_have_attribute("data-role", "assistant")
    tab.keyboard.press("k")
    expect(tab.locator("article:focus")).to_have_attribute("data-role", "user")
    tab.keyboard.press("[")
    expect(tab.locator("article:focus .bubble")).to_have_text("list the files")
    tab.keyboard.press("]")
    expect(tab.locator("article:focus .bubble")).to_have_text("WAITING for a key")


def test_the_context_is_compacted_from_its_meter(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    tab.locator("[data-meter]").click()
    panel = tab.locator("[data-context]")
    expect(panel).to_contain_text("This session")
    panel.get_by_label("What the summary should keep").fill("names")
    panel.get_by_role("button", name="Compact now").click()
    expect(tab.locator("[data-notice=NOT_COMPACTED]")).to_be_visible()  # so short a session has nothing to free
