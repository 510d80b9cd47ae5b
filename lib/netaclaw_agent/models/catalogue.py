"""The models that an operator offers, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Model, ModelError
from netaclaw_agent.models.scripted import ScriptedModel
from netaclaw_agent.usage import FREE, Prices, cost

if TYPE_CHECKING:
    from netaclaw_agent.models.openai import OpenAIModel

SCRIPTED = "scripted"
OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Which models there are. Times are in seconds."""

    openai_base_url: str = ""
    """Address of an OpenAI-compatible server, for example "https://host/v1"; empty: there is no `openai` model."""
    openai_api_key: str = field(default="", repr=False)
    """Empty: no Authorization header is sent."""
    openai_model: str = "default"
    """The model's name at that server. Servers with one model mostly ignore it."""
    openai_context_window: int = 128_000
    first_token_timeout_s: float = 120.0
    idle_timeout_s: float = 60.0
    total_timeout_s: float = 600.0
    max_tries: int = 3
    """Requests per call, where nothing was shown yet."""

    def __post_init__(self) -> None:
        if self.openai_base_url and not _is_http(self.openai_base_url):
            raise ValueError("NETACLAW_OPENAI_BASE_URL must be an http:// or https:// address")
        if self.openai_api_key and "@" in urlsplit(self.openai_base_url).netloc:
            raise ValueError("NETACLAW_OPENAI_BASE_URL must not hold credentials beside NETACLAW_OPENAI_API_KEY")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ModelSettings:
        """Read NETACLAW_OPENAI_* and NETACLAW_MODEL_*; unset and empty mean the default.

        Raises ValueError that names the variable, never its value.
        """
        floor = cls()
        return cls(
            openai_base_url=environ.get("NETACLAW_OPENAI_BASE_URL", "").strip(),
            openai_api_key=environ.get("NETACLAW_OPENAI_API_KEY", "").strip(),
            openai_model=environ.get("NETACLAW_OPENAI_MODEL", "").strip() or floor.openai_model,
            openai_context_window=int(_number(environ, "NETACLAW_OPENAI_CONTEXT_WINDOW", floor.openai_context_window)),
            first_token_timeout_s=_number(environ, "NETACLAW_MODEL_FIRST_TOKEN_TIMEOUT_S", floor.first_token_timeout_s),
            idle_timeout_s=_number(environ, "NETACLAW_MODEL_IDLE_TIMEOUT_S", floor.idle_timeout_s),
            total_timeout_s=_number(environ, "NETACLAW_MODEL_TOTAL_TIMEOUT_S", floor.total_timeout_s),
            max_tries=max(1, int(_number(environ, "NETACLAW_MODEL_MAX_TRIES", floor.max_tries))),
        )


class ModelCatalogue:
    """Names → models. `scripted` is always there; `openai` where a base URL is set, and then it is the default."""

    def __init__(self, settings: ModelSettings) -> None:
        self._openai: OpenAIModel | None = None
        self._models: dict[str, Model] = {SCRIPTED: ScriptedModel(name=SCRIPTED)}
        if settings.openai_base_url:
            self._models[OPENAI] = self._make_openai(settings)
        self._prices: dict[str, Prices] = {}
        self._default = OPENAI if settings.openai_base_url else SCRIPTED

    @property
    def default_name(self) -> str:
        """The model of agents that name none."""
        return self._default

    @property
    def names(self) -> list[str]:
        """All names, the default first."""
        return sorted(self._models, key=lambda name: (name != self._default, name))

    def get(self, name: str) -> Model:
        """The model of that name; the default one for an empty name.

        Raises ModelError with reason MODEL_UNKNOWN, not retryable.
        """
        model = self._models.get(name or self._default)
        if model is None:
            raise ModelError("no model of that name in the catalogue", reason="MODEL_UNKNOWN", retryable=False)
        return model

    def cost(self, name: str, usage: Usage) -> int:
        """What a model's tokens cost, in millionths of the catalogue's currency; the default model for an empty name.

        0 for a model that has no price, or that is not in the catalogue any more.
        """
        return cost(self._prices.get(name or self._default, FREE), usage)

    async def close(self) -> None:
        """Close all connections. Running calls fail. Idempotent."""
        if self._openai is not None:
            await self._openai.close()

    def _make_openai(self, settings: ModelSettings) -> Model:
        # Imported here so that a process without this provider never pays for an HTTP client.
        from netaclaw_agent.models.http_model import StreamLimits  # noqa: PLC0415  # brings aiohttp
        from netaclaw_agent.models.openai import OpenAIModel  # noqa: PLC0415  # as above
        from netaclaw_agent.models.retry import RetryingModel  # noqa: PLC0415  # as above

        self._openai = OpenAIModel(
            name=OPENAI,
            base_url=_with_version(settings.openai_base_url),
            api_key=settings.openai_api_key,
            model=settings.openai_model,
            context_window=settings.openai_context_window,
            limits=StreamLimits(settings.first_token_timeout_s, settings.idle_timeout_s, settings.total_timeout_s),
        )
        return RetryingModel(self._openai, tries=settings.max_tries)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def _with_version(url: str) -> str:
    """A bare host gets the path that nearly every server uses; any other path is the operator's word."""
    return f"{url.rstrip('/')}/v1" if urlsplit(url).path in ("", "/") else url


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number") from None
    if not 0 < value < 10**9:
        raise ValueError(f"{name} must be above 0")
    return value
