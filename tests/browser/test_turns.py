"""Delegated turns in a real browser, through both ways in and with both clients."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.conftest import FOREIGN, Way, open_page

CONTENT = "in parallel: count the files; find the 3 largest files; count the lines per language"
LONG = "in parallel: " + "; ".join(["count the files"] * 16)
"""Three at once: it goes on well after the cut has come through."""
CLIENTS = ["turn", "googleTurn"]


def run(page: Page, client: str, url: str, **more: Any) -> dict[str, Any]:
    asked = {"baseUrl": url, "content": CONTENT, "workspace": "files", **more}
    report: dict[str, Any] = page.evaluate(f"asked => window.netaclaw.{client}(asked)", asked)
    return report


@pytest.mark.parametrize("client", CLIENTS)
def test_a_delegated_turn_is_seen_live_and_ends_as_it_is_stored(page: Page, way: Way, client: str) -> None:
    report = run(page, client, way.direct)
    assert (report["end"], report["differences"], report["cards"]) == ("done", [], 1)
    assert report["texts"] > 5
    assert "Task 3 of 3" in report["text"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_cut_in_the_middle_is_resumed_without_loss_or_repetition(page: Page, way: Way, client: str) -> None:
    page.expose_function("cut", way.cut)
    report = run(page, client, way.url, cut=True, content=LONG)
    assert (report["end"], report["differences"], report["cards"]) == ("done", [], 1)
    assert report["streams"] > 1


def test_google_s_client_makes_short_calls_too(page: Page, way: Way) -> None:
    assert page.evaluate("url => window.netaclaw.googlePing(url)", way.direct) == "pong"


def test_a_page_reads_the_reason_of_an_error_across_origins(page: Page, way: Way) -> None:
    report = page.evaluate("url => window.netaclaw.failure(url)", way.direct)
    assert report == {"reason": "SESSION_NOT_FOUND", "code": 3}


def test_eight_tabs_share_one_stream_and_short_calls_stay_short(browser: Browser, site: int, way: Way) -> None:
    context = browser.new_context()
    tabs = [open_page(context.new_page(), site) for _ in range(8)]
    asked = {"baseUrl": way.direct, "content": CONTENT, "workspace": "files", "shared": True}
    for tab in tabs:
        tab.evaluate("asked => { window.running = window.netaclaw.turn(asked); }", asked)
    took: list[float] = tabs[0].evaluate("url => window.netaclaw.pings(url, 10)", way.direct)
    reports = [tab.evaluate("() => window.running") for tab in tabs]
    context.close()
    assert max(took) < 1000
    assert [(report["end"], report["differences"]) for report in reports] == [("done", [])] * 8
    assert len({report["sessionId"] for report in reports}) == 8


def test_a_tab_that_is_closed_leaves_the_stream_to_the_others(browser: Browser, site: int, way: Way) -> None:
    context = browser.new_context()
    first, second = (open_page(context.new_page(), site) for _ in range(2))
    asked = {"baseUrl": way.direct, "content": CONTENT, "workspace": "files", "shared": True}
    first.evaluate("asked => { window.running = window.netaclaw.turn(asked); }", asked)
    second.evaluate("asked => { window.running = window.netaclaw.turn(asked); }", asked)
    first.close()
    report = second.evaluate("() => window.running")
    context.close()
    assert (report["end"], report["differences"]) == ("done", [])


def test_without_shared_workers_a_tab_has_a_stream_of_its_own(page: Page, way: Way) -> None:
    page.evaluate("() => { delete window.SharedWorker; }")
    report = run(page, "turn", way.direct, shared=True)
    assert (report["end"], report["differences"]) == ("done", [])


def test_a_page_of_another_site_starts_nothing(browser: Browser, site: int, way: Way) -> None:
    context = browser.new_context()
    page = open_page(context.new_page(), site, FOREIGN)
    before = sessions(browser, site, way)
    assert page.evaluate("url => window.netaclaw.reach(url)", way.direct) == ["rejected", "rejected"]
    rebound = way.direct.replace("127.0.0.1", FOREIGN)
    assert page.evaluate("url => window.netaclaw.reach(url)", rebound) == ["rejected", "rejected"]
    assert sessions(browser, site, way) == before
    context.close()


def sessions(browser: Browser, site: int, way: Way) -> int:
    """How many sessions there are, as a page of this machine sees it."""
    context = browser.new_context()
    own = open_page(context.new_page(), site)
    count: int = own.evaluate("url => window.netaclaw.sessionCount(url)", way.direct)
    context.close()
    return count
