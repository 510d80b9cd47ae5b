"""Questions and approvals on the page: there after every reload, answered once from anywhere, never left hanging."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from netaclaw.tool.v1.tool_pb2 import ToolApproval
from tests.browser.page_reading import batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, send, session_of, settled, turn

ASK = "ask: Which roof? | red | blue"
APPROVALS = {"write_file": ToolApproval.TOOL_APPROVAL_ASK}


def in_state(tab: Page, word: str) -> None:
    """Wait until the newest question of the conversation is in a state."""
    expect(tab.locator("[data-clarify]").last).to_have_attribute("data-question", word)


def choose(tab: Page, choice: str) -> None:
    """Press the button of a choice; its name begins with its number."""
    name = re.compile(rf"\d {choice}")
    tab.locator("[data-clarify]").last.get_by_role("button", name=name).click()


def held_answers(tab: Page) -> list[Route]:
    """Answers from this tab stay on their way from now on."""
    held: list[Route] = []

    def hold(route: Route) -> None:  # a built-in method is no handler here
        held.append(route)

    tab.route("**/RespondClarify", hold)
    return held


def test_a_question_is_there_after_a_reload_and_both_tabs_show_its_answer(
    context: BrowserContext, suite: PageSuite
) -> None:
    tab, other = context.new_page(), context.new_page()
    begin(tab, suite)
    send(tab, ASK)
    in_state(tab, "open")
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    other.goto(tab.url)
    tab.reload()
    mark = tab.locator(f"[data-session='{session_of(tab)}'] [data-mark=needs-you]")
    for each in (tab, other):
        in_state(each, "open")
        assert shown(each) == stored(suite.tree(session_of(tab)))
    expect(mark).to_be_visible()
    choose(tab, "blue")
    for each in (tab, other):
        in_state(each, "answered")
        expect(each.locator("[data-clarify]")).to_contain_text("blue")
        settled(each)
        assert shown(each) == stored(suite.tree(session_of(tab)))
    expect(mark).to_be_hidden()
    expect(tab.get_by_role("button", name="A question waits")).to_be_hidden()


def test_the_first_answer_wins_and_the_other_is_told(context: BrowserContext, suite: PageSuite) -> None:
    tab, other = context.new_page(), context.new_page()
    begin(tab, suite)
    send(tab, ASK)
    in_state(tab, "open")
    other.goto(tab.url)
    in_state(other, "open")
    held = held_answers(other)
    other.get_by_label("Your answer").fill("the green one")
    with other.expect_request("**/RespondClarify"):
        other.get_by_role("button", name="Answer", exact=True).click()
    choose(tab, "red")
    in_state(other, "answered")
    held[0].continue_()
    expect(other.locator("[data-notice=CLARIFY_CLOSED]")).to_be_visible()
    for each in (tab, other):
        settled(each)
        expect(each.locator("[data-clarify]")).to_contain_text("red")
        assert shown(each) == stored(suite.tree(session_of(tab)))


def test_an_answer_after_the_end_is_told_so_and_the_input_is_free(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "ask: Which roof? | red | 2 s")
    in_state(tab, "open")
    held = held_answers(tab)
    with tab.expect_request("**/RespondClarify"):
        choose(tab, "red")
    in_state(tab, "expired")
    held[0].continue_()
    expect(tab.locator("[data-notice=CLARIFY_CLOSED]")).to_be_visible()
    settled(tab)
    turn(tab, "list the files")
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    tab.reload()
    settled(tab)
    in_state(tab, "expired")
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_question_is_closed_with_its_turn(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, ASK)
    in_state(tab, "open")
    tab.locator("[data-stop]").click()
    settled(tab)
    in_state(tab, "closed")
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    expect(tab.get_by_role("button", name="A question waits")).to_be_hidden()


@pytest.mark.parametrize(("choice", "state", "made"), [("Allow", "completed", True), ("Deny", "refused", False)])
def test_a_call_waits_for_a_person(tab: Page, suite: PageSuite, choice: str, state: str, made: bool) -> None:
    session_id, file = suite.session(approvals=APPROVALS), f"by-{choice}.txt"
    tab.goto(f"{suite.url}/s/{session_id}")
    send(tab, f"write hello to {file}")
    in_state(tab, "open")
    card = tab.locator("[data-clarify]")
    expect(card).to_contain_text("write_file")
    expect(card.locator("pre")).to_contain_text(file)
    expect(tab.locator(".calls [data-call]")).to_have_attribute("data-state", "waiting")
    tab.reload()
    in_state(tab, "open")
    assert shown(tab) == stored(suite.tree(session_id))
    choose(tab, choice)
    settled(tab)
    expect(tab.locator(".calls [data-call]")).to_have_attribute("data-state", state)
    assert (suite.workspace / file).exists() == made
    assert shown(tab) == stored(suite.tree(session_id))


def test_what_is_always_allowed_is_not_asked_again(tab: Page, suite: PageSuite) -> None:
    session_id = suite.session(approvals=APPROVALS)
    tab.goto(f"{suite.url}/s/{session_id}")
    send(tab, "write hello to always.txt")
    in_state(tab, "open")
    choose(tab, "Always allow")
    settled(tab)
    tab.reload()
    settled(tab)
    turn(tab, "write again to always-2.txt")
    assert (suite.workspace / "always-2.txt").read_text() == "again"
    assert sum(len(message["questions"]) for message in shown(tab)) == 1
    assert shown(tab) == stored(suite.tree(session_id))


def test_a_child_s_call_waits_for_a_person_too(tab: Page, suite: PageSuite) -> None:
    session_id = suite.session(approvals=APPROVALS)
    tab.goto(f"{suite.url}/s/{session_id}")
    send(tab, "delegate: write hello to by-child.txt")
    in_state(tab, "open")
    tab.reload()
    in_state(tab, "open")
    assert shown(tab) == stored(suite.tree(session_id))
    assert [len(message["questions"]) for message in shown(tab) if message["batches"]] == [1], "it stands at its batch"
    choose(tab, "Allow")
    settled(tab)
    assert (suite.workspace / "by-child.txt").read_text() == "hello"
    assert [state for batch in batches(tab) for _, state in batch["tasks"]] == ["completed"]
    assert shown(tab) == stored(suite.tree(session_id))
