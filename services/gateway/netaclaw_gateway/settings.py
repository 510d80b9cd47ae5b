"""Settings of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from netaclaw_chassis.settings import var


@dataclass(frozen=True, slots=True)
class Settings:
    """Read once, in __main__."""

    host: str = var("NETACLAW_GATEWAY_HOST", "127.0.0.1")
    port: int = var("NETACLAW_GATEWAY_PORT", 7400)
    """0 takes any free port; the announcement names it."""
    orchestrator_address: str = var("NETACLAW_ORCHESTRATOR_ADDRESS", "127.0.0.1:7404")
    store_address: str = var("NETACLAW_STORE_ADDRESS", "127.0.0.1:7401")

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ValueError("NETACLAW_GATEWAY_PORT must be from 0 to 65535")
        for name in ("orchestrator", "store"):
            host, colon, port = getattr(self, f"{name}_address").rpartition(":")
            if not (host and colon and port.isdecimal()):
                raise ValueError(f"NETACLAW_{name.upper()}_ADDRESS must be host:port")
