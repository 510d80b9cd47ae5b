"""Settings of the gateway and what it refuses to start with."""

from __future__ import annotations

import re

import pytest

from netaclaw_chassis.lifecycle import StartError
from netaclaw_chassis.settings import SettingsError, read
from netaclaw_gateway.app import open_app
from netaclaw_gateway.settings import Settings


def test_defaults_are_loopback_and_the_fixed_ports() -> None:
    settings = read(Settings, {})
    assert (settings.host, settings.port) == ("127.0.0.1", 7400)
    assert (settings.web_port, settings.authz_port) == (7405, 7406)
    assert (settings.orchestrator_address, settings.store_address) == ("127.0.0.1:7404", "127.0.0.1:7401")
    assert settings.store_internal_address == "127.0.0.1:7402"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NETACLAW_GATEWAY_PORT", "seventy"),
        ("NETACLAW_GATEWAY_PORT", "70000"),
        ("NETACLAW_GATEWAY_WEB_PORT", "-1"),
        ("NETACLAW_GATEWAY_ORIGINS", "app.example"),
        ("NETACLAW_STORE_ADDRESS", "nowhere"),
        ("NETACLAW_ORCHESTRATOR_ADDRESS", "127.0.0.1:"),
    ],
)
def test_a_bad_value_is_named_in_the_error(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        read(Settings, {name: value})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
async def test_a_host_beyond_loopback_is_refused_where_keys_cannot_be_asked_for(host: str) -> None:
    with pytest.raises(StartError, match=f"cannot listen on {re.escape(host)}: whether there are API keys"):
        async with open_app(Settings(host=host, port=0, store_internal_address="127.0.0.1:1")):
            pass
