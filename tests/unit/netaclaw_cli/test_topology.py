"""How the services are wired, and what of the environment each may see."""

from __future__ import annotations

from pathlib import Path

from netaclaw_cli.topology import (
    ENVOY_SERVICE,
    GATEWAY,
    ORCHESTRATOR,
    RUNNER,
    SERVICES,
    STORE,
    environment,
    key_variables,
    wanted_ports,
)

BY_NAME = {service.name: service for service in SERVICES}
SECRETS = {
    "NETACLAW_OPENAI_API_KEY": "k",
    "NETACLAW_OPENAI_BASE_URL": "u",
    "NETACLAW_MODEL_MAX_TRIES": "1",
    "NETACLAW_DATABASE_URL": "d",
}
ADDRESSES = {
    (STORE, "public"): "h:1",
    (STORE, "internal"): "h:2",
    (RUNNER, "internal"): "h:3",
    (ORCHESTRATOR, "public"): "h:4",
}


def made(name: str) -> dict[str, str]:
    service = BY_NAME[name]
    own = {"NETACLAW_DATA_DIR": "/d"}
    return environment(service, {"HOME": "/h", **SECRETS}, own, wanted_ports(service, 7400), ADDRESSES)


def test_the_fixed_ports_are_those_of_the_readme() -> None:
    ports = {name: tuple(wanted_ports(service, 7400).values()) for name, service in BY_NAME.items()}
    assert ports == {STORE: (7401, 7402), RUNNER: (7403,), ORCHESTRATOR: (7404,), GATEWAY: (7400, 7405, 7406)}


def test_envoy_has_a_port_of_its_own_and_knows_everybody() -> None:
    addresses = ADDRESSES | {(GATEWAY, "public"): "h:5", (GATEWAY, "web"): "h:7", (GATEWAY, "authz"): "h:6"}
    seen = environment(ENVOY_SERVICE, SECRETS, {}, wanted_ports(ENVOY_SERVICE, 7400), addresses)
    assert seen == {
        "NETACLAW_ENVOY_PORT": "7407",
        "NETACLAW_ORCHESTRATOR_ADDRESS": "h:4",
        "NETACLAW_STORE_ADDRESS": "h:1",
        "NETACLAW_GATEWAY_ADDRESS": "h:5",
        "NETACLAW_GATEWAY_WEB_ADDRESS": "h:7",
        "NETACLAW_AUTHZ_ADDRESS": "h:6",
    }


def test_free_ports_are_asked_for_with_zero() -> None:
    assert set(wanted_ports(BY_NAME[STORE], 0).values()) == {0}


def test_each_service_sees_only_its_own_secrets() -> None:
    seen = {name: {key for key in made(name) if key in SECRETS} for name in BY_NAME}
    models = SECRETS.keys() - {"NETACLAW_DATABASE_URL"}
    assert seen == {STORE: {"NETACLAW_DATABASE_URL"}, RUNNER: models, ORCHESTRATOR: models, GATEWAY: set()}


def test_services_get_the_addresses_that_were_announced() -> None:
    orchestrator, gateway = made(ORCHESTRATOR), made(GATEWAY)
    assert orchestrator["NETACLAW_STORE_ADDRESS"] == "h:1"
    assert orchestrator["NETACLAW_STORE_INTERNAL_ADDRESS"] == "h:2"
    assert orchestrator["NETACLAW_RUNNER_ADDRESS"] == "h:3"
    assert (gateway["NETACLAW_ORCHESTRATOR_ADDRESS"], gateway["NETACLAW_STORE_ADDRESS"]) == ("h:4", "h:1")


def test_the_callers_environment_is_kept() -> None:
    assert made(STORE)["HOME"] == "/h"
    assert made(STORE)["NETACLAW_STORE_INTERNAL_PORT"] == "7402"


def test_the_keys_of_the_catalogue_go_to_orchestrator_and_runner_only(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[providers.a]\nkind = "anthropic"\nkey_env = "A_KEY"\n[providers.b]\nkind = "scripted"\n')
    base = {"NETACLAW_MODELS_FILE": str(file), "A_KEY": "canary", "OTHER": "x"}
    seen = {
        service.name: set(environment(service, base, {}, wanted_ports(service, 7400), ADDRESSES))
        for service in SERVICES
    }
    assert {name for name, variables in seen.items() if "A_KEY" in variables} == {"orchestrator", "runner"}
    assert all("OTHER" in variables for variables in seen.values())
    for broken in ("[[", "providers = 1"):
        file.write_text(broken)
        assert key_variables(base) == frozenset()
    assert key_variables({}) == frozenset()
