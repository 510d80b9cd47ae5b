"""The models that an operator offers, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from netaclaw.model.v1 import model_pb2
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Model, ModelError
from netaclaw_agent.models import models_file
from netaclaw_agent.models.anthropic_request import AnthropicOptions
from netaclaw_agent.models.limits import Slots, StreamLimits
from netaclaw_agent.models.listing import Missing, described
from netaclaw_agent.models.models_file import ANTHROPIC, LOCAL, OPENAI, SCRIPTED, ModelsFile, Offer, Provider
from netaclaw_agent.models.offered import OfferedModel
from netaclaw_agent.models.openai_request import OpenAIOptions
from netaclaw_agent.models.scripted import ScriptedModel
from netaclaw_agent.models.unavailable import UnavailableModel
from netaclaw_agent.usage import FREE, cost

if TYPE_CHECKING:
    from netaclaw_agent.models.http_model import HttpModel

MAX_FILE_BYTES = 1024 * 1024
NO_LOCAL_MODEL = "the local model is not installed: `netaclaw doctor` says how to get it"
SCRIPTED_WINDOW = 128_000
_LOCAL_WINDOW = 8_192
_LOCAL_OPTIONS = OpenAIOptions(has_tools=False, max_output_tokens=512)
"""It is too small to plan: offered tools, it would ramble about them."""


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
    max_concurrent: int = 0
    """Calls at once to one provider from this process; 0: any number."""
    file: ModelsFile = field(default_factory=ModelsFile)
    """The operator's catalogue."""
    local_url: str = ""
    """Address of the local model's server; empty: there is none."""

    def __post_init__(self) -> None:
        if self.openai_base_url and not _is_http(self.openai_base_url):
            raise ValueError("NETACLAW_OPENAI_BASE_URL must be an http:// or https:// address")
        if self.openai_api_key and "@" in urlsplit(self.openai_base_url).netloc:
            raise ValueError("NETACLAW_OPENAI_BASE_URL must not hold credentials beside NETACLAW_OPENAI_API_KEY")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> ModelSettings:
        """Read NETACLAW_OPENAI_*, NETACLAW_MODEL_* and the file that NETACLAW_MODELS_FILE names; unset and empty mean
        the default.

        Raises ValueError that names the variable, never its value.
        """
        floor = cls()
        made = cls(
            openai_base_url=environ.get("NETACLAW_OPENAI_BASE_URL", "").strip(),
            openai_api_key=environ.get("NETACLAW_OPENAI_API_KEY", "").strip(),
            openai_model=environ.get("NETACLAW_OPENAI_MODEL", "").strip() or floor.openai_model,
            openai_context_window=int(_number(environ, "NETACLAW_OPENAI_CONTEXT_WINDOW", floor.openai_context_window)),
            first_token_timeout_s=_number(environ, "NETACLAW_MODEL_FIRST_TOKEN_TIMEOUT_S", floor.first_token_timeout_s),
            idle_timeout_s=_number(environ, "NETACLAW_MODEL_IDLE_TIMEOUT_S", floor.idle_timeout_s),
            total_timeout_s=_number(environ, "NETACLAW_MODEL_TOTAL_TIMEOUT_S", floor.total_timeout_s),
            max_tries=max(1, int(_number(environ, "NETACLAW_MODEL_MAX_TRIES", floor.max_tries))),
            max_concurrent=int(_number(environ, "NETACLAW_MODEL_MAX_CONCURRENT", floor.max_concurrent)),
            local_url=environ.get("NETACLAW_LOCAL_MODEL_URL", "").strip(),
        )
        path = environ.get("NETACLAW_MODELS_FILE", "").strip()
        return replace(made, file=_read_file(Path(path), environ, made.provider)) if path else made

    @property
    def provider(self) -> Provider:
        """The server of the `openai` model, whose limits are those of providers that set none."""
        return Provider(
            name=OPENAI,
            kind=OPENAI,
            url=_with_version(self.openai_base_url) if self.openai_base_url else "",
            key=self.openai_api_key,
            max_concurrent=self.max_concurrent,
            limits=StreamLimits(self.first_token_timeout_s, self.idle_timeout_s, self.total_timeout_s),
            max_tries=self.max_tries,
        )


class ModelCatalogue:
    """Names → models. `scripted` and `local` are always there; `openai` where a base URL is set; and what the
    operator's file has, which wins where names are the same.

    The default is the file's, else `openai` where that is, else `scripted`.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self._http: list[HttpModel] = []
        self._offers: dict[str, Offer] = {}
        self._missing: dict[str, Missing] = {}
        self._models: dict[str, Model] = {}
        self._add(Offer(SCRIPTED, SCRIPTED, SCRIPTED, SCRIPTED_WINDOW), Provider(SCRIPTED, SCRIPTED), Slots(0))
        provider = settings.provider
        local = replace(provider, name=LOCAL, kind=LOCAL, url=settings.local_url, key="", max_concurrent=1)
        self._add(Offer(LOCAL, LOCAL, LOCAL, _LOCAL_WINDOW, options=_LOCAL_OPTIONS), local, Slots(1))
        if provider.url:
            options = models_file.habits_of(provider.url)
            offer = Offer(OPENAI, OPENAI, settings.openai_model, settings.openai_context_window, options=options)
            self._add(offer, provider, Slots(provider.max_concurrent))
        slots = {name: Slots(each.max_concurrent) for name, each in settings.file.providers.items()}
        for offer in settings.file.models.values():
            provider = settings.file.providers[offer.provider]
            url = settings.local_url if provider.kind == LOCAL else provider.url
            self._add(offer, replace(provider, url=url), slots[offer.provider])
        self._default = settings.file.default or (OPENAI if OPENAI in self._models else SCRIPTED)

    @property
    def default_name(self) -> str:
        """The model of agents that name none."""
        return self._default

    @property
    def names(self) -> list[str]:
        """All names, the default first."""
        return sorted(self._models, key=lambda name: (name != self._default, name))

    def listed(self) -> list[model_pb2.Model]:
        """What is told of every model, in name order."""
        return [
            described(self._offers[name], self._missing.get(name), is_default=name == self._default)
            for name in sorted(self._models)
        ]

    def get(self, name: str) -> Model:
        """The model of that name; the default one for an empty name.

        Raises ModelError with reason MODEL_UNKNOWN, not retryable.
        """
        model = self._models.get(name or self._default)
        if model is None:
            raise ModelError(
                f"no model of that name in the catalogue: {name[: models_file.MAX_NAME]!r}",
                reason="MODEL_UNKNOWN",
                retryable=False,
            )
        return model

    def takes_tools(self, name: str) -> bool:
        """Whether the model is offered tools; the default one for an empty name, True for one that is not here."""
        offer = self._offers.get(name or self._default)
        return offer is None or offer.options is None or offer.options.has_tools

    def cost(self, name: str, usage: Usage) -> int:
        """What a model's tokens cost, in millionths of the catalogue's currency; the default model for an empty name.

        0 for a model that has no price, or that is not in the catalogue any more. Models set `cost_micros` of what they
        report themselves; this is for usage that comes from elsewhere.
        """
        offer = self._offers.get(name or self._default)
        return cost(offer.prices if offer is not None else FREE, usage)

    async def close(self) -> None:
        """Close all connections. Running calls fail. Idempotent."""
        for model in self._http:
            await model.close()

    def _add(self, offer: Offer, provider: Provider, slots: Slots) -> None:
        self._offers[offer.name] = offer
        self._missing.pop(offer.name, None)
        if provider.kind == SCRIPTED:
            self._models[offer.name] = ScriptedModel(name=offer.name, context_window=offer.window)
            return
        missing = _missing(provider)
        if missing is not None:
            self._missing[offer.name] = missing
            self._models[offer.name] = UnavailableModel(offer.name, offer.window, missing.why)
            return
        model = _make(offer, provider)
        self._http.append(model)
        self._models[offer.name] = OfferedModel(model, slots=slots, prices=offer.prices, tries=provider.max_tries)


def _missing(provider: Provider) -> Missing | None:
    if provider.kind == LOCAL and not provider.url:
        return Missing(model_pb2.MODEL_AVAILABILITY_NOT_INSTALLED, NO_LOCAL_MODEL)
    if provider.key_env and not provider.key:
        why = f"the key of provider {provider.name} is missing: {provider.key_env} is not set"
        return Missing(model_pb2.MODEL_AVAILABILITY_KEY_MISSING, why)
    return None


def _make(offer: Offer, provider: Provider) -> HttpModel:
    # Imported here so that a process without a provider never pays for an HTTP client.
    from netaclaw_agent.models.anthropic import AnthropicModel  # noqa: PLC0415  # brings aiohttp
    from netaclaw_agent.models.openai import OpenAIModel  # noqa: PLC0415  # as above

    if provider.kind == ANTHROPIC:
        assert not isinstance(offer.options, OpenAIOptions)
        return AnthropicModel(
            name=offer.name,
            base_url=provider.url,
            api_key=provider.key,
            model=offer.model,
            context_window=offer.window,
            limits=provider.limits,
            options=offer.options,
        )
    assert not isinstance(offer.options, AnthropicOptions)
    return OpenAIModel(
        name=offer.name,
        base_url=provider.url,
        api_key=provider.key,
        model=offer.model,
        context_window=offer.window,
        limits=provider.limits,
        options=offer.options,
    )


def _read_file(path: Path, environ: Mapping[str, str], floor: Provider) -> ModelsFile:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"NETACLAW_MODELS_FILE cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"NETACLAW_MODELS_FILE is larger than {MAX_FILE_BYTES} bytes")
    try:
        return models_file.parse(data.decode(), environ, floor)
    except UnicodeDecodeError:
        raise ValueError("NETACLAW_MODELS_FILE is not UTF-8") from None
    except ValueError as error:
        raise ValueError(f"NETACLAW_MODELS_FILE: {error}") from None


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
