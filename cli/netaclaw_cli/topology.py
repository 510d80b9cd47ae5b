"""The suite's four services: order, ports, who needs whose address, and what of the environment each may see."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

STORE, RUNNER, ORCHESTRATOR, GATEWAY, ENVOY = "store", "runner", "orchestrator", "gateway", "envoy"

BASE_PORT = 7400

_MODEL_PREFIXES = ("NETACLAW_OPENAI_", "NETACLAW_MODEL_")
_DATABASE_PREFIXES = ("NETACLAW_DATABASE_",)


@dataclass(frozen=True, slots=True)
class Service:
    """One of the services and how it is wired."""

    name: str
    module: str
    ports: Mapping[str, str]
    """What it announces (public, internal) to the variable that sets it."""
    offsets: tuple[int, ...]
    """Place of each port after the base port, in the order of `ports`."""
    addresses: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Variable to (service, announced name) of the address that it gets."""
    http: tuple[str, ...] = ()
    """Announced names that speak HTTP and not gRPC."""
    outer: tuple[str, ...] = ()
    """Announced names that are for clients: plain text also where services speak TLS with each other."""
    start_timeout_s: float = 30.0
    secrets: tuple[str, ...] = ()
    """Beginnings of the secret-bearing variables that it sees; others are kept from it."""


SERVICES: tuple[Service, ...] = (
    Service(
        STORE,
        "netaclaw_store",
        {"public": "NETACLAW_STORE_PORT", "internal": "NETACLAW_STORE_INTERNAL_PORT"},
        (1, 2),
        start_timeout_s=90.0,  # the first start makes a database
        secrets=_DATABASE_PREFIXES,
    ),
    Service(
        RUNNER,
        "netaclaw_runner",
        {"internal": "NETACLAW_RUNNER_PORT"},
        (3,),
        secrets=_MODEL_PREFIXES,
    ),
    Service(
        ORCHESTRATOR,
        "netaclaw_orchestrator",
        {"public": "NETACLAW_ORCHESTRATOR_PORT"},
        (4,),
        {
            "NETACLAW_STORE_ADDRESS": (STORE, "public"),
            "NETACLAW_STORE_INTERNAL_ADDRESS": (STORE, "internal"),
            "NETACLAW_RUNNER_ADDRESS": (RUNNER, "internal"),
        },
        start_timeout_s=60.0,
        secrets=_MODEL_PREFIXES,
    ),
    Service(
        GATEWAY,
        "netaclaw_gateway",
        {
            "public": "NETACLAW_GATEWAY_PORT",
            "web": "NETACLAW_GATEWAY_WEB_PORT",
            "authz": "NETACLAW_GATEWAY_AUTHZ_PORT",
        },
        (0, 5, 6),
        {
            "NETACLAW_ORCHESTRATOR_ADDRESS": (ORCHESTRATOR, "public"),
            "NETACLAW_STORE_ADDRESS": (STORE, "public"),
            "NETACLAW_STORE_INTERNAL_ADDRESS": (STORE, "internal"),
        },
        http=("web", "authz"),
        outer=("public",),
    ),
)
"""In start order; they stop in the reverse one."""

ENVOY_SERVICE = Service(
    ENVOY,
    "netaclaw_cli.envoy_service",
    {"public": "NETACLAW_ENVOY_PORT"},
    (7,),
    {
        "NETACLAW_ORCHESTRATOR_ADDRESS": (ORCHESTRATOR, "public"),
        "NETACLAW_STORE_ADDRESS": (STORE, "public"),
        "NETACLAW_GATEWAY_ADDRESS": (GATEWAY, "public"),
        "NETACLAW_GATEWAY_WEB_ADDRESS": (GATEWAY, "web"),
        "NETACLAW_AUTHZ_ADDRESS": (GATEWAY, "authz"),
    },
    http=("public",),
)
"""Stands in front of the others when it is asked for."""


def environment(
    service: Service,
    base: Mapping[str, str],
    own: Mapping[str, str],
    ports: Mapping[str, int],
    addresses: Mapping[tuple[str, str], str],
) -> dict[str, str]:
    """The environment of a service: the caller's without the others' secrets, then `own`, then its wiring."""
    kept_back = tuple(p for p in (*_MODEL_PREFIXES, *_DATABASE_PREFIXES) if p not in service.secrets)
    keys = frozenset() if _MODEL_PREFIXES[0] in service.secrets else key_variables(base)
    made = {name: value for name, value in base.items() if not name.startswith(kept_back) and name not in keys}
    made |= own
    made |= {variable: str(ports[name]) for name, variable in service.ports.items()}
    made |= {variable: addresses[key] for variable, key in service.addresses.items()}
    return made


def key_variables(environ: Mapping[str, str]) -> frozenset[str]:
    """Variables that the operator's catalogue of models names as holders of keys.

    None where it cannot be read: then the services that use it do not start, and say why.
    """
    try:
        document = tomllib.loads(Path(environ["NETACLAW_MODELS_FILE"].strip()).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return frozenset()
    providers = document.get("providers")
    tables = providers.values() if isinstance(providers, dict) else ()
    named = (table.get("key_env") for table in tables if isinstance(table, dict))
    return frozenset(name for name in named if isinstance(name, str))


def wanted_ports(service: Service, base_port: int) -> dict[str, int]:
    """The ports of a service for a base port; 0 means free ones."""
    return {name: base_port + n if base_port else 0 for name, n in zip(service.ports, service.offsets, strict=True)}
