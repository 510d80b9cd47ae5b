"""A certificate authority of a test's own, and what it signs, as files."""

from __future__ import annotations

from pathlib import Path

import trustme

HOSTS = ("127.0.0.1", "localhost")


class Authority:
    """Signs certificates that are good for one hour and more; no other authority signs the same."""

    def __init__(self, directory: Path, name: str = "ours") -> None:
        self._ca = trustme.CA(organization_name=name)
        self._directory = directory
        self._name = name
        self.roots = directory / f"{name}-ca.pem"
        """The authority's own certificate."""
        self._ca.cert_pem.write_to_path(self.roots)

    def sign(self, *names: str) -> tuple[Path, Path]:
        """A chain and its key, for names or addresses; without any, for this machine's."""
        made = self._ca.issue_cert(*(names or HOSTS))
        stem = f"{self._name}-{'-'.join(names) or 'here'}"
        chain, key = self._directory / f"{stem}.pem", self._directory / f"{stem}.key"
        chain.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        made.private_key_pem.write_to_path(key)
        return chain, key

    def settings(self, *names: str) -> dict[str, str]:
        """The environment of services that show such a certificate and believe this authority."""
        chain, key = self.sign(*names)
        return {
            "NETACLAW_SERVICE_TLS_CERTIFICATE": str(chain),
            "NETACLAW_SERVICE_TLS_KEY": str(key),
            "NETACLAW_SERVICE_TLS_CA": str(self.roots),
        }
