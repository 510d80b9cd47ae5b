"""Which pages may call."""

from __future__ import annotations

import pytest

from netaclaw_gateway.origins import OriginPolicy

LOCAL = OriginPolicy(local=True)
PUBLIC = OriginPolicy(local=False, origins=["https://app.example"])


def refused(policy: OriginPolicy, method: str = "POST", **headers: str) -> bool:
    given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return policy.refusal(method, given) is not None


@pytest.mark.parametrize("host", ["127.0.0.1:7405", "localhost", "[::1]:7405", "app.localhost:1", "127.8.8.8"])
def test_a_local_gateway_answers_to_local_names(host: str) -> None:
    assert not refused(LOCAL, host=host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", "["]
)
def test_a_local_gateway_answers_to_no_foreign_name(host: str) -> None:
    assert refused(LOCAL, host=host)


@pytest.mark.parametrize(
    "origin", ["http://localhost:5173", "http://127.0.0.1", "https://[::1]:8", "http://a.localhost"]
)
def test_pages_of_this_machine_may_call_a_local_gateway(origin: str) -> None:
    assert not refused(LOCAL, host="127.0.0.1:7405", origin=origin)


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "https://evil.example", "http://localhost.evil.example", "http://evil.example#localhost"),
        *("file://", "chrome-extension://localhost", "http://127.0.0.1@evil.example", "HTTP://", "http://["),
    ],
)
def test_other_pages_may_not(origin: str) -> None:
    assert refused(LOCAL, host="127.0.0.1:7405", origin=origin)


def test_a_cross_site_request_without_an_origin_may_not_call() -> None:
    assert refused(LOCAL, host="localhost", sec_fetch_site="cross-site")
    assert not refused(LOCAL, host="localhost", sec_fetch_site="same-origin")
    assert not refused(LOCAL, "GET", host="localhost", sec_fetch_site="cross-site")  # a link to the page


def test_a_public_gateway_serves_its_own_pages_and_those_that_are_listed() -> None:
    assert not refused(PUBLIC, host="chat.example", origin="https://chat.example")
    assert not refused(PUBLIC, host="chat.example", origin="https://app.example")
    assert refused(PUBLIC, host="chat.example", origin="https://other.example")
    assert refused(PUBLIC, host="chat.example", origin="http://localhost:5173")
    assert refused(PUBLIC, host="chat.example", origin="null")


def test_names_can_be_listed() -> None:
    policy = OriginPolicy(local=False, hosts=["Chat.example"])
    assert not refused(policy, host="chat.example:443")
    assert not refused(policy, host="Chat.Example.")
    assert refused(policy, host="other.example")
