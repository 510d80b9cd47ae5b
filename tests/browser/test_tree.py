"""The tree's drawer, and messages that wait."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.page_model import SUMMARY
from tests.browser.page_reading import shown, stored
from tests.browser.page_suite import PageSuite, begin, send, session_of, settled, turn
from tests.fakes.openai_server import Reply, Text, Wait


def test_a_node_is_labelled_found_by_its_label_and_copied_into_a_session(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "list the files")
    session = session_of(tab)
    tab.get_by_role("button", name="Open the tree").click()
    row = tab.locator("[data-tree-entry]").first
    row.get_by_role("button", name="Actions for").click()
    tab.get_by_role("menuitem", name="Label…").click()
    tab.get_by_role("textbox", name="Label").fill("the beginning")
    tab.keyboard.press("Enter")
    expect(row.locator("[data-label]")).to_have_text("the beginning")
    tab.get_by_role("checkbox", name="Only labelled").check()
    expect(tab.locator("[data-tree-entry]")).to_have_count(1)
    assert [entry.label for entry in suite.tree(session).entries if entry.label] == ["the beginning"]
    row.get_by_role("button", name="Actions for").click()
    tab.get_by_role("menuitem", name="Copy up to here").click()
    expect(tab).not_to_have_url(f"{suite.url}/s/{session}")
    expect(tab.locator("[data-role=user]")).to_have_count(1)
    assert suite.tree(session_of(tab)).session.forked_from_session_id == session


def begin_two_branches(tab: Page, suite: PageSuite) -> None:
    """A session whose second message was sent in two versions; the later one is shown."""
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "list the files")
    tab.locator("[data-edit]").last.click()
    tab.locator(".edit textarea").fill("hello again")
    tab.locator(".edit .primary").click()
    expect(tab.locator(".pager")).to_contain_text("2/2")
    settled(tab)


def test_a_branch_that_is_left_is_summed_up_where_one_asks_for_it(tab: Page, suite: PageSuite) -> None:
    begin_two_branches(tab, suite)
    tab.locator("[data-open-tree]").click()
    tab.get_by_label("Summarise the branch that is left").check()
    tab.get_by_role("textbox", name="What the summary should keep").fill("names")
    tab.locator("[data-tree-entry]", has_text="list the files").locator(".node").click()
    expect(tab.get_by_role("dialog")).to_have_count(0)
    notice = tab.locator("details", has_text="Summary of the branch that was left")
    notice.locator("summary").click()
    expect(notice).to_contain_text(SUMMARY.replace("*", ""))
    tree = suite.tree(session_of(tab))
    summaries = [entry for entry in tree.entries if entry.HasField("branch_summary")]
    assert [entry.entry_id for entry in summaries] == [tree.session.leaf_entry_id]


def test_a_summary_that_takes_too_long_is_stopped_and_nothing_has_moved(tab: Page, suite: PageSuite) -> None:
    begin_two_branches(tab, suite)
    leaf = suite.tree(session_of(tab)).session.leaf_entry_id
    suite.hold()
    with suite.model.answers(then=Reply([Text("They "), Wait(suite.waiting), Text("talked.")])):
        tab.locator("[data-open-tree]").click()
        tab.get_by_label("Summarise the branch that is left").check()
        tab.locator("[data-tree-entry]", has_text="list the files").locator(".node").click()
        tab.locator(".note", has_text="Summarising…").get_by_role("button", name="Stop").click()
        expect(tab.locator("[data-notice=NOT_COMPACTED]")).to_be_visible()
    suite.release()
    expect(tab.locator(".note")).to_have_count(0)
    tree = suite.tree(session_of(tab))
    assert tree.session.leaf_entry_id == leaf
    assert not any(entry.HasField("branch_summary") for entry in tree.entries)


def test_the_first_message_edited_begins_a_tree_of_its_own(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    turn(tab, "list the files")
    session, before = session_of(tab), shown(tab)
    other = tab.context.new_page()
    other.goto(tab.url)
    tab.locator("[data-edit]").first.click()
    tab.locator(".edit textarea").fill("good day")
    tab.locator(".edit .primary").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    anew = shown(tab)
    assert [message["text"] for message in anew if message["role"] == "user"] == ["goodday"]
    assert anew == stored(suite.tree(session))
    turn(tab, "and then")
    tree = suite.tree(session)
    roots = [entry for entry in tree.entries if not entry.parent_entry_id]
    assert [entry.user.text for entry in roots] == ["hello", "good day"]
    expect(other.locator(".bubble")).to_have_text(["good day", "and then"])
    tab.reload()
    expect(tab.locator(".pager")).to_contain_text("2/2")
    for page in (tab, other):
        settled(page)
        assert shown(page) == stored(tree)
    other.close()
    tab.get_by_role("button", name="Previous version").click()
    expect(tab.get_by_role("group", name="Version 1 of 2")).to_be_visible()
    assert shown(tab) == before == stored(suite.tree(session))
    tab.locator("[data-open-tree]").click()
    rows = tab.locator("[data-tree-entry]")
    expect(rows.locator(".user .text")).to_have_text(["hello", "list the files", "good day", "and then"])
    expect(rows.locator("[data-root]")).to_have_text(["beginning 1", "beginning 2"])
    rows.filter(has=tab.locator("[data-root]", has_text="beginning 2")).locator(".node").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    assert shown(tab) == stored(suite.tree(session))


def test_messages_that_wait_are_listed_after_a_reload_and_can_be_taken_back(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "WAITING for me")
    for text in ("first in line", "second in line"):
        tab.locator("[data-composer]").fill(text)
        tab.keyboard.press("Enter")
        expect(tab.locator("[data-receipt=queued]", has_text=text)).to_be_visible()
    other = tab.context.new_page()
    other.goto(tab.url)
    tab.reload()
    for page in (tab, other):
        expect(page.locator("[data-receipt] .text")).to_have_text(["first in line", "second in line"])
    tab.locator("[data-receipt]").first.get_by_role("button", name="Take back").click()
    for page in (tab, other):
        expect(page.locator("[data-receipt] .text")).to_have_text(["second in line"])
    suite.release()
    expect(tab.locator(".bubble", has_text="second in line")).to_be_visible()
    settled(tab)
    expect(tab.locator("[data-receipt]")).to_have_count(0)
    expect(tab.locator(".bubble", has_text="first in line")).to_have_count(0)
