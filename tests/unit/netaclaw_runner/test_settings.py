"""The runner's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from netaclaw_chassis.settings import SettingsError
from netaclaw_runner.places import PlaceLimits
from netaclaw_runner.settings import read


def test_every_variable_reaches_its_field() -> None:
    settings = read(
        {
            "NETACLAW_RUNNER_HOST": "127.0.0.2",
            "NETACLAW_RUNNER_PORT": "0",
            "NETACLAW_RUNNER_MAX_WORKERS": "5",
            "NETACLAW_RUNNER_MAX_WAITING": "0",
            "NETACLAW_RUNNER_MAX_PER_SESSION": "2",
            "NETACLAW_RUNNER_MAX_PER_OWNER": "3",
            "NETACLAW_DATA_DIR": "/data",
            "NETACLAW_WORKSPACES": "docs=/srv/docs,code=/srv/code",
            "NETACLAW_LEASE_SECONDS": "1",
            "NETACLAW_OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        }
    )

    assert (settings.host, settings.port, settings.max_workers) == ("127.0.0.2", 0, 5)
    assert settings.place_limits == PlaceLimits(5, 0, per_session=2, per_owner=3)
    assert settings.data_dir == Path("/data")
    assert settings.workspaces == {"docs": "/srv/docs", "code": "/srv/code"}
    assert settings.lease_seconds == 1.0
    assert settings.models.openai_base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NETACLAW_RUNNER_PORT", "70000"),
        ("NETACLAW_RUNNER_MAX_WORKERS", "0"),
        ("NETACLAW_RUNNER_MAX_WAITING", "-1"),
        ("NETACLAW_RUNNER_MAX_PER_SESSION", "0"),
        ("NETACLAW_RUNNER_MAX_PER_OWNER", "20000"),
        ("NETACLAW_LEASE_SECONDS", "0"),
        ("NETACLAW_WORKSPACES", "docs=relative/path"),
        ("NETACLAW_OPENAI_BASE_URL", "secret-canary"),
    ],
)
def test_a_wrong_value_is_named_and_never_repeated(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        read({name: value})
    if value == "secret-canary":
        assert value not in str(caught.value)
