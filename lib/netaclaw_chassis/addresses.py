"""Addresses of hosts."""

from __future__ import annotations

import ipaddress


def is_loopback(name: str) -> bool:
    """Whether a host's name or address means this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
