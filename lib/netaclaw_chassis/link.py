"""How services of one suite reach each other: TLS where configured, and pings; the same at both ends of a hop."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from netaclaw_chassis.addresses import is_loopback
from netaclaw_chassis.settings import SettingsError, var

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""Largest message that is taken; ours stay below 1 MiB."""

CERTIFICATE, KEY, AUTHORITY = "NETACLAW_SERVICE_TLS_CERTIFICATE", "NETACLAW_SERVICE_TLS_KEY", "NETACLAW_SERVICE_TLS_CA"

_MOST_FLIGHTS = 8
"""Turns of both sides until a handshake is over; three are enough."""

Options = Sequence[tuple[str, int | str]]


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Read beside a service's own settings; the same in all services, and in the Envoy before them."""

    certificate: str = var(CERTIFICATE, "")
    """PEM chain that this service shows. With it, its key and the authority, TLS is spoken on every inner hop."""
    key: str = var(KEY, "")
    """Its private key, PEM, without a passphrase."""
    authority: str = var(AUTHORITY, "")
    """PEM certificates of who signs the suite's; no other is believed."""
    name: str = var("NETACLAW_SERVICE_TLS_NAME", "")
    """The name that every service's certificate carries; empty: the host by which it is reached."""
    mutual: bool = var("NETACLAW_SERVICE_TLS_MUTUAL", False)
    """Whether callers, too, must show a certificate of the authority."""
    ping_s: float = var("NETACLAW_PING_SECONDS", 30.0)
    """So often an open connection is pinged; below the idle limit of whatever stands between services."""

    def __post_init__(self) -> None:
        given = {CERTIFICATE: self.certificate, KEY: self.key, AUTHORITY: self.authority}
        missing = [variable for variable, value in given.items() if not value]
        if 0 < len(missing) < len(given):
            raise SettingsError(f"{', '.join(given)} belong together; missing: {', '.join(missing)}")
        if missing and (self.mutual or self.name):
            raise SettingsError(f"NETACLAW_SERVICE_TLS_MUTUAL and …_NAME need {', '.join(missing)}")
        if not 0.1 <= self.ping_s <= 3600:
            raise SettingsError("NETACLAW_PING_SECONDS is not between 0.1 and 3600")


@dataclass(frozen=True, slots=True)
class Link:
    """What servers and channels are made with."""

    servers: grpc.ServerCredentials | None = None
    """None: plain text."""
    channels: grpc.ChannelCredentials | None = None
    name: str = ""
    ping_s: float = 30.0

    @property
    def answer_s(self) -> float:
        """How long the answer to a ping may take; then the connection is given up."""
        return self.ping_s * 2 / 3

    @property
    def least_apart_s(self) -> float:
        """Pings that are closer are abuse to a server, which ends the connection; so nothing of ours pings as often."""
        return self.ping_s / 3

    def server_options(self) -> Options:
        """Options of a gRPC server."""
        return (
            *self._both_ends(),
            ("grpc.so_reuseport", 0),  # a port in use is an error, not a second server
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _ms(self.least_apart_s)),
        )

    def channel_options(self) -> Options:
        """Options of a channel."""
        named = (("grpc.ssl_target_name_override", self.name),) if self.channels is not None and self.name else ()
        return (
            *self._both_ends(),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2_000),  # in truth, how long one try to connect may take
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.enable_http_proxy", 0),  # services are addressed directly, whatever the environment says
            *named,
        )

    def _both_ends(self) -> Options:
        return (
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", _ms(self.ping_s)),
            ("grpc.keepalive_timeout_ms", _ms(self.answer_s)),
            ("grpc.http2.max_pings_without_data", 0),
        )


PLAIN = Link()
"""Plain text, for loopback; and for the gateway's own port, in front of which TLS is a proxy's."""


def load(settings: LinkSettings) -> Link:
    """Read the files that the settings name, once. Raises SettingsError, which names the variable, for a file that
    cannot be read or is not what it should be, and for a certificate that the authority would not be believed by."""
    if not settings.certificate:
        return Link(ping_s=settings.ping_s)
    chain, key = _read(CERTIFICATE, settings.certificate), _read(KEY, settings.key)
    roots = _read(AUTHORITY, settings.authority)
    _rehearse(settings)
    servers = grpc.ssl_server_credentials([(key, chain)], roots if settings.mutual else None, settings.mutual)
    channels = grpc.ssl_channel_credentials(roots, key, chain)
    return Link(servers, channels, settings.name, settings.ping_s)


def check_exposure(host: str, service_token: str, link: Link, variable: str) -> None:
    """Look at what a service that listens on a host shows to its network.

    On anything but a loopback address, raises SettingsError without a service token, since then whoever reaches the
    port could be anybody; without TLS a warning is logged.
    """
    if is_loopback(host.strip("[]")):
        return
    if not service_token:
        raise SettingsError(f"{variable} is no loopback address, which needs NETACLAW_SERVICE_TOKEN")
    if link.servers is None:
        log.warning(
            "listening on a network without TLS: whoever reads its traffic has the service token and all content",
            extra={"host": host, "setting": CERTIFICATE},
        )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _read(variable: str, place: str) -> bytes:
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise SettingsError(f"{variable}: {place} cannot be read: {error.strerror}") from None


def _rehearse(settings: LinkSettings) -> None:
    """Shake hands with ourselves: it fails as it would with every other service, but with a word that says why."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        server.load_cert_chain(settings.certificate, settings.key, password="")  # one with a passphrase is refused
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"{CERTIFICATE} and {KEY} do not fit: {_words(error)}") from None
    try:
        client.load_verify_locations(settings.authority)
    except ssl.SSLError as error:
        raise SettingsError(f"{AUTHORITY} holds no usable certificate: {_words(error)}") from None
    if settings.mutual:
        client.load_cert_chain(settings.certificate, settings.key)
        server.load_verify_locations(settings.authority)
        server.verify_mode = ssl.CERT_REQUIRED
    client.check_hostname = bool(settings.name)  # without a name it depends on where the service is reached
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=settings.name or None),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_MOST_FLIGHTS):
            ends = [end for end in ends if not _shaken(end)]
    except ssl.SSLError as error:
        raise SettingsError(f"{CERTIFICATE} is not believed by {AUTHORITY}: {_words(error)}") from None


def _shaken(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
