"""Cards beside the text: plans, summaries, tool calls; and what steers a turn while it runs."""

from __future__ import annotations

import json
from typing import Any

import grpc
from playwright.sync_api import Page, expect

from netaclaw.chat.v1.chat_service_pb2 import CompactRequest
from netaclaw.chat.v1.chat_service_pb2_grpc import ChatServiceStub
from tests.browser.background import ROOT
from tests.browser.page_reading import shown, stored
from tests.browser.page_suite import API_KEY, WINDOW, PageSuite, begin, send, session_of, settled, turn, write
from tests.fakes.openai_server import Raw, Reply, Text

CASES = ROOT / "tests" / "cases"


def reloaded(tab: Page, suite: PageSuite) -> None:
    """The page shows what is stored, now and after a reload."""
    assert shown(tab) == stored(suite.tree(session_of(tab)))
    tab.reload()
    settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_plan_stands_above_its_answer(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "plan: look; mend")
    plan = tab.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("1 of 2 done")
    assert [message["todos"] for message in shown(tab) if message["todos"]] == [["completed", "pending"]]
    reloaded(tab, suite)


def test_a_context_that_is_full_is_summed_up_and_says_so(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    for _ in range(2):
        turn(tab, "word " * (WINDOW // 2))
    summary = tab.locator("details.notice")
    expect(summary).to_contain_text("Older messages were summarised")
    summary.locator("summary").click()
    expect(summary.locator("strong")).to_have_text("files")
    assert [message["role"] for message in shown(tab)].count("summary") == 1
    reloaded(tab, suite)


def test_a_summary_that_was_asked_for_elsewhere_appears_at_once(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    for text in ("word " * 4000, "list the files", "hello", "list the files", "hello again"):
        turn(tab, text)
    with grpc.insecure_channel(suite.grpc_address) as channel:
        ChatServiceStub(channel).Compact(CompactRequest(session_id=session_of(tab)), timeout=20)
    expect(tab.locator("details.notice")).to_be_visible()
    reloaded(tab, suite)
    turn(tab, "list the files")
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_a_message_steers_the_turn_that_runs(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "AFTERWARDS, please")
    expect(tab.locator("[data-role=assistant]")).to_contain_text("I look")
    tab.get_by_label("While the agent works").select_option("Steer")
    write(tab, "and mind the others")
    expect(tab.locator("[data-receipt=queued]")).to_contain_text("and mind the others")
    suite.release()
    expect(tab.locator("[data-receipt]")).to_have_count(0)
    settled(tab)
    expect(tab.locator("[data-role=user]").last.locator("[data-origin=steer]")).to_be_visible()
    assert [message["role"] for message in shown(tab)] == ["user", "assistant", "user", "assistant"]
    reloaded(tab, suite)


def test_a_child_is_steered_and_the_receipt_is_shown(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    send(tab, "delegate: AFTERWARDS, one of them")
    row = tab.locator("[data-task]")
    expect(row).to_have_attribute("data-state", "running")
    row.locator(".toggle").click()
    row.get_by_role("button", name="Steer", exact=True).click()
    row.get_by_role("textbox").fill("look twice")
    tab.keyboard.press("Enter")
    expect(row.get_by_role("status")).to_have_text("queued")
    suite.release()
    settled(tab)
    expect(row.get_by_role("status")).to_have_text("taken in")
    row.get_by_role("button", name="Transcript").click()
    expect(tab.get_by_role("dialog")).to_contain_text("look twice")


def test_thinking_is_folded_and_survives(tab: Page, suite: PageSuite) -> None:
    begin(tab, suite)
    turn(tab, "THINK about it")
    thoughts = tab.locator("details.thinking")
    expect(thoughts.get_by_text("First I look")).to_be_hidden()
    thoughts.locator("summary").click()
    expect(thoughts.get_by_text("First I look")).to_be_visible()
    reloaded(tab, suite)


def case_reply(name: str) -> Reply:
    return Reply([Raw((CASES / name).read_bytes())], raw_body=True)


def test_calls_of_a_server_that_numbers_them_anew_each_round_have_cards_of_their_own(
    tab: Page, suite: PageSuite
) -> None:
    rounds = case_reply("model-stream-04-round1.sse"), case_reply("model-stream-04-round2.sse")
    with suite.model.answers(*rounds, then=Reply([Text("That is all.")])):
        begin(tab, suite)
        turn(tab, "look up four things")
    calls = [call for message in shown(tab) for call in message["calls"]]
    assert len(set(calls)) == len(calls) == 4
    reloaded(tab, suite)


def test_characters_that_were_cut_in_pieces_are_whole_on_the_page(tab: Page, suite: PageSuite) -> None:
    case: dict[str, Any] = json.loads((CASES / "model-stream-07.chunks.json").read_text())
    chunks = [Raw(bytes.fromhex(chunk)) for chunk in case["chunks_hex"]]
    cut = Reply(chunks, raw_body=True, headers={"Content-Type": case["content_type"]})
    with suite.model.answers(cut, then=Reply([Text("Noted.")])):
        begin(tab, suite)
        turn(tab, "write a note")
    for _ in range(2):
        first = tab.locator("[data-role=assistant]").first
        expect(first.locator("[data-content]")).to_have_text(case["expect"]["text"])
        call = first.locator("[data-call]")
        call.locator("summary").click()
        assert json.loads(call.locator("pre").first.inner_text()) == case["expect"]["arguments"]
        assert "�" not in tab.content()
        tab.reload()
        settled(tab)
    assert shown(tab) == stored(suite.tree(session_of(tab)))


def test_no_secret_of_a_service_comes_out_on_the_page(tab: Page, suite: PageSuite) -> None:
    suite.model.special["ECHO"] = Reply(status=400, error={"message": f"bad request, key Bearer {API_KEY}"})
    session_id = suite.session(shell_enabled=True)
    tab.goto(f"{suite.url}/s/{session_id}")
    turn(tab, "shell: env; cat /proc/self/environ; cat /proc/$PPID/environ")
    turn(tab, "in parallel: shell: env; ECHO it")
    turn(tab, "ECHO it")
    for opener in tab.locator("details > summary, [data-task] .toggle[aria-expanded=false]").all():
        opener.click()
    assert "PATH=" in tab.locator("body").inner_text(), "the environment was printed"
    seen = [tab.content()]
    for opener in tab.get_by_role("button", name="Transcript").all():
        opener.click()
        expect(tab.get_by_role("dialog").locator("[data-role=user]")).to_be_visible()
        seen.append(tab.content())
        tab.keyboard.press("Escape")
    for page in ("agents/new", "tools"):
        tab.goto(f"{suite.url}/{page}")
        expect(tab.locator("h1")).to_be_visible()
        seen.append(tab.content())
    assert [text for text in seen if API_KEY in text] == []
