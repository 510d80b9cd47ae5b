"""Settings of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw_chassis.link import LinkSettings
from netaclaw_chassis.settings import group, var

_ADDRESSES = ("orchestrator", "store", "store_internal")
_PORTS = ("port", "web_port", "authz_port")


@dataclass(frozen=True, slots=True)
class Settings:
    """Read once, in __main__. A port of 0 is any free one; the announcement names it."""

    host: str = var("NETACLAW_GATEWAY_HOST", "127.0.0.1")
    """Anything but a loopback address requires API keys."""
    port: int = var("NETACLAW_GATEWAY_PORT", 7400)
    """gRPC over HTTP/2."""
    web_port: int = var("NETACLAW_GATEWAY_WEB_PORT", 7405)
    """gRPC-Web over HTTP/1.1."""
    authz_port: int = var("NETACLAW_GATEWAY_AUTHZ_PORT", 7406)
    """Answers a proxy's question whether a request may pass; on loopback always."""
    keys_required: bool = var("NETACLAW_KEYS_REQUIRED", False)
    """True asks for API keys on loopback, too: for a gateway behind a proxy."""
    requests_per_owner: int = var("NETACLAW_REQUESTS_PER_SECOND_PER_OWNER", 500)
    requests_per_address: int = var("NETACLAW_REQUESTS_PER_SECOND_PER_ADDRESS", 1000)
    """Bursts of twice as many are let through; 0: no limit."""
    origins: tuple[str, ...] = var("NETACLAW_GATEWAY_ORIGINS", ())
    """Origins of pages that may call beside the gateway's own: https://app.example,…"""
    hosts: tuple[str, ...] = var("NETACLAW_GATEWAY_HOSTS", ())
    """Names under which web requests are served; empty: any with keys, local ones without."""
    orchestrator_address: str = var("NETACLAW_ORCHESTRATOR_ADDRESS", "127.0.0.1:7404")
    store_address: str = var("NETACLAW_STORE_ADDRESS", "127.0.0.1:7401")
    store_internal_address: str = var("NETACLAW_STORE_INTERNAL_ADDRESS", "127.0.0.1:7402")
    service_token: str = var("NETACLAW_SERVICE_TOKEN", "")
    """Shown to the other services; empty: none, for loopback alone."""
    link: LinkSettings = group(LinkSettings)

    def __post_init__(self) -> None:
        for name in _PORTS:
            if not 0 <= getattr(self, name) <= 65_535:
                raise ValueError(f"NETACLAW_GATEWAY_{name.upper()} must be from 0 to 65535")
        for name in _ADDRESSES:
            host, colon, port = getattr(self, f"{name}_address").rpartition(":")
            if not (host and colon and port.isdecimal()):
                raise ValueError(f"NETACLAW_{name.upper()}_ADDRESS must be host:port")
        for origin in self.origins:
            if not origin.startswith(("https://", "http://")):
                raise ValueError("NETACLAW_GATEWAY_ORIGINS must be origins such as https://app.example")
