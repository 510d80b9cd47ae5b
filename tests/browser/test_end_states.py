"""How a child or an answer ended, as the page tells it: each state in word and shape, and nothing spins for ever."""

from __future__ import annotations

from functools import partial
from typing import cast

import pytest
from playwright.sync_api import Page, expect

from netaclaw.agent.v1.agent_pb2 import SubagentConfig
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse
from netaclaw.session.v1.subagent_pb2 import SubagentBatch, SubagentTaskState
from tests.browser.page_reading import TASK_WORDS, batches, shown, stored
from tests.browser.page_suite import PageSuite, begin, send, session_of, settled, turn
from tests.browser.test_connections import TREE, change_tree

UNKNOWN = cast("SubagentTaskState", 99)
"""A state of a later version."""
ENDS = {state: word for state, word in TASK_WORDS.items() if word not in ("queued", "running")}


def states(tab: Page) -> list[str]:
    return [state for batch in batches(tab) for _, state in batch["tasks"]]


def test_children_end_live_as_they_end_in_the_store(tab: Page, suite: PageSuite) -> None:
    """Completed, stopped at a limit, failed, failed for an empty answer, timed out, and cancelled."""
    session_id = suite.session(subagent_config=SubagentConfig(timeout_seconds=8, max_concurrent=6))
    tab.goto(f"{suite.url}/s/{session_id}")
    send(tab, "in parallel: count the files; TOO-LONG text; FAIL-400 it; EMPTY it; HANG-LATER on; HANG")
    expect(tab.locator("[data-task][data-state=running]").last).to_be_visible()
    tab.locator("[data-task]").last.get_by_role("button", name="Stop").click()
    settled(tab)
    ended = ["completed", "partial", "failed", "failed", "timedOut", "cancelled"]
    assert states(tab) == ended
    assert shown(tab) == stored(suite.tree(session_id))
    expect(tab.locator("[data-task] .word")).to_have_text(
        ["completed", "partial", "failed", "failed", "timed out", "cancelled"]
    )
    counts = {"completed": 1, "partial": 1, "timedOut": 1, "failed": 2, "cancelled": 1}
    for word, count in counts.items():
        expect(tab.locator(f"[data-count={word}]")).to_contain_text(str(count))
    expect(tab.locator("[data-task][data-state=timedOut]")).to_contain_text("This answer begins")
    tab.reload()
    settled(tab)
    assert states(tab) == ended


def test_every_end_state_of_a_child_stops_the_spinner(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "delegate: count the files")
    for state in (*ENDS, UNKNOWN):
        tab.unroute(TREE)
        change_tree(tab, partial(end_as, state=state))
        tab.reload()
        row = tab.locator("[data-task]")
        expect(row).to_have_attribute("data-state", ENDS.get(state, "unknown"))
        settled(tab)
        expect(tab.locator(".mark.live, .bar .running")).to_have_count(0)
        expect(row.get_by_role("button", name="Stop")).to_have_count(0)
    expect(row.locator(".word")).to_contain_text("failed")
    expect(row.locator(".head .mark.bad")).to_have_count(1)


def end_as(tree: GetSessionTreeResponse, state: SubagentTaskState) -> None:
    for batch in batches_of(tree):
        for task in batch.items:
            task.state = state


def batches_of(tree: GetSessionTreeResponse) -> list[SubagentBatch]:
    bodies = [body for entry in tree.entries for body in (entry.subagent_batch, entry.subagent_result)]
    return [body.batch for body in bodies if body.batch.items]


@pytest.mark.parametrize(
    ("message", "said"),
    [("FAIL-400 it", "This answer failed."), ("CUT it", "This answer failed."), ("WAITING for it", "Stopped.")],
)
def test_an_answer_that_ends_badly_keeps_its_text_and_can_be_tried_again(
    tab: Page, suite: PageSuite, message: str, said: str
) -> None:
    begin(tab, suite)
    turn(tab, "hello")
    send(tab, message)
    answer = tab.locator("[data-role=assistant]").last
    if message.startswith("WAITING"):
        expect(answer).to_contain_text("begins")
        tab.locator("[data-stop]").click()
    expect(answer).to_contain_text(said, timeout=30_000)
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    suite.release()
    tab.get_by_role("button", name="Try again").click()
    expect(tab.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))
