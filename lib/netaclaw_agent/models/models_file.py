"""The operator's catalogue, `models.toml`: providers, and the models that they have.

    default = "sonnet"

    [providers.anthropic]
    kind = "anthropic"
    key_env = "ANTHROPIC_API_KEY"

    [models.sonnet]
    provider = "anthropic"
    model = "claude-sonnet-4-5"
    window = 200000
    input_price = 3.0
    output_price = 15.0

Every key is described where it is read below. Unknown keys are refused: they are mostly misspelt ones.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar
from urllib.parse import urlsplit

from netaclaw_agent.models.anthropic_request import DEFAULT_MAX_TOKENS, AnthropicOptions
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.openai_request import OpenAIOptions
from netaclaw_agent.models.thinking import ANTHROPIC_STYLES, LEVELS, OPENAI_STYLES, ThinkingStyle, ThinkingWords
from netaclaw_agent.usage import FREE, Prices

T = TypeVar("T")

OPENAI, ANTHROPIC, SCRIPTED, LOCAL = "openai", "anthropic", "scripted", "local"
KINDS = (OPENAI, ANTHROPIC, SCRIPTED, LOCAL)
ANTHROPIC_URL = "https://api.anthropic.com"
MAX_NAME = 100
_MAX_PRICE = Decimal(1_000_000)
_MAX_NUMBER = 10**9


@dataclass(frozen=True, slots=True)
class Provider:
    """One way to models: an address, a key, and limits that its models share."""

    name: str
    kind: str
    """One of KINDS."""
    url: str = ""
    key_env: str = ""
    """The environment variable that holds the key; empty: no key is sent."""
    key: str = field(default="", repr=False)
    max_concurrent: int = 0
    """Calls at once from one process; others wait, sessions in turn. 0: any number."""
    limits: StreamLimits = field(default_factory=StreamLimits)
    max_tries: int = 3
    """Requests per call, where nothing was shown yet."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One model that agents can name."""

    name: str
    provider: str
    model: str
    """Its name at the provider."""
    window: int
    """Tokens that fit, prompt and answer together."""
    prices: Prices = FREE
    options: OpenAIOptions | AnthropicOptions | None = None
    """What its provider's kind needs to know."""


@dataclass(frozen=True, slots=True)
class ModelsFile:
    """A whole catalogue."""

    default: str = ""
    """The model of agents that name none; empty: the first one."""
    providers: Mapping[str, Provider] = field(default_factory=dict)
    models: Mapping[str, Offer] = field(default_factory=dict)


def parse(text: str, environ: Mapping[str, str], floor: Provider) -> ModelsFile:
    """Read a catalogue; `floor` has the limits of providers that set none.

    Raises ValueError that says where the mistake is. No value of the environment is ever part of it. A key whose
    variable is not set is no mistake here: the model says so when it is asked.
    """
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from None
    top = _Table("the file", document)
    default = top.take("default", str, "")
    providers = {table.name: _provider(table, environ, floor) for table in _tables(top, "providers")}
    models = {table.name: _offer(table, providers) for table in _tables(top, "models")}
    top.end()
    if default and default not in models and default not in (SCRIPTED, LOCAL):
        raise ValueError(f"default: there is no [models.{default}]")
    return ModelsFile(default or next(iter(models), ""), providers, models)


def check_url(url: str) -> bool:
    """Whether it is an http:// or https:// address without credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and "@" not in parts.netloc


class _Table:
    """A table of the file, whose keys are taken one by one; `end` refuses what is left."""

    def __init__(self, where: str, values: Mapping[str, Any], name: str = "") -> None:
        self.where = where
        self.name = name
        self._left = dict(values)

    def take(self, key: str, kind: type[T], default: T | None = None) -> T:
        """A value of that type; without a default the key is required."""
        if key not in self._left:
            if default is None:
                raise self.wrong(key, "is required")
            return default
        value = self._left.pop(key)
        if kind is Decimal and isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"must be {_WORDS[kind]}")
        if isinstance(value, Decimal) and not value.is_finite():
            raise self.wrong(key, "must be a number")
        return value

    def number(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        value = self.take(key, int, default)
        if not least <= value <= _MAX_NUMBER:
            raise self.wrong(key, f"must be from {least} to {_MAX_NUMBER}")
        return value

    def seconds(self, key: str, default: float) -> float:
        value = self.take(key, Decimal, Decimal(str(default)))
        if not 0 < value <= _MAX_NUMBER:
            raise self.wrong(key, "must be above 0")
        return float(value)

    def price(self, key: str) -> Decimal | None:
        if key not in self._left:
            return None
        value = self.take(key, Decimal)
        if not 0 <= value <= _MAX_PRICE:
            raise self.wrong(key, f"must be from 0 to {_MAX_PRICE}")
        return value

    def has(self, key: str) -> bool:
        return key in self._left

    def end(self) -> None:
        for key in self._left:
            raise self.wrong(key, "is not known")

    def wrong(self, key: str, what: str) -> ValueError:
        return ValueError(f"{self.where}: {key} {what}")


_WORDS: Mapping[type, str] = {
    str: "text",
    int: "a whole number",
    Decimal: "a number",
    bool: "true or false",
    dict: "a table",
}


def _tables(top: _Table, section: str) -> list[_Table]:
    tables = top.take(section, dict, {})
    for name, values in tables.items():
        if not (0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()):
            raise ValueError(f"[{section}]: a name must be 1 to {MAX_NAME} printable characters")
        if not isinstance(values, dict):
            raise ValueError(f"[{section}]: {name} must be a table")
    return [_Table(f"[{section}.{name}]", values, name) for name, values in tables.items()]


def _provider(table: _Table, environ: Mapping[str, str], floor: Provider) -> Provider:
    kind = table.take("kind", str)
    if kind not in KINDS:
        raise table.wrong("kind", f"must be one of {', '.join(KINDS)}")
    url = table.take("url", str, ANTHROPIC_URL if kind == ANTHROPIC else "") if kind in (OPENAI, ANTHROPIC) else ""
    if kind == OPENAI and not url:
        raise table.wrong("url", "is required")
    if url and not check_url(url):
        raise table.wrong("url", "must be an http:// or https:// address without credentials")
    key_env = table.take("key_env", str, "") if url else ""
    if table.has("key"):
        raise table.wrong("key", "does not belong into a file: name the variable that holds it with key_env")
    made = Provider(
        name=table.name,
        kind=kind,
        url=url,
        key_env=key_env,
        key=environ.get(key_env, "").strip() if key_env else "",
        max_concurrent=table.number("max_concurrent", floor.max_concurrent, least=0),
        limits=StreamLimits(
            table.seconds("first_token_timeout_s", floor.limits.first_token_s),
            table.seconds("idle_timeout_s", floor.limits.idle_s),
            table.seconds("total_timeout_s", floor.limits.total_s),
        ),
        max_tries=table.number("max_tries", floor.max_tries),
    )
    table.end()
    return made


def _offer(table: _Table, providers: Mapping[str, Provider]) -> Offer:
    provider = providers.get(table.take("provider", str))
    if provider is None:
        raise table.wrong("provider", "names no [providers] table")
    prices = Prices(
        table.price("input_price") or Decimal(0),
        table.price("output_price") or Decimal(0),
        table.price("cached_input_price"),
    )
    options: OpenAIOptions | AnthropicOptions | None = None
    if provider.kind == ANTHROPIC:
        options = _anthropic_options(table)
    elif provider.kind in (OPENAI, LOCAL):
        options = _openai_options(table, provider.url)
    made = Offer(
        name=table.name,
        provider=provider.name,
        model=table.take("model", str, table.name),
        window=table.number("window", None if provider.url else 128_000),
        prices=prices,
        options=options,
    )
    table.end()
    return made


def _openai_options(table: _Table, url: str) -> OpenAIOptions:
    habits = habits_of(url)
    return OpenAIOptions(
        thinking=_thinking(table, habits.thinking.style, OPENAI_STYLES),
        sends_reasoning=table.take("sends_reasoning", bool, habits.sends_reasoning),
        reasoning_tag=table.take("reasoning_tag", str, habits.reasoning_tag),
        reasoning_tag_implied=table.take("reasoning_tag_implied", bool, False),
        has_tools=table.take("tools", bool, True),
        max_output_tokens=table.number("max_output_tokens", 0, least=0),
        max_tokens_field=table.take("max_tokens_field", str, habits.max_tokens_field),
        extra=_plain(table.take("extra", dict, {})),
    )


def _anthropic_options(table: _Table) -> AnthropicOptions:
    return AnthropicOptions(
        thinking=_thinking(table, ThinkingStyle.BUDGET, ANTHROPIC_STYLES),
        has_tools=table.take("tools", bool, True),
        max_output_tokens=table.number("max_output_tokens", DEFAULT_MAX_TOKENS),
    )


def _thinking(table: _Table, default: ThinkingStyle, allowed: Set[ThinkingStyle]) -> ThinkingWords:
    styles = {style.value: style for style in sorted(allowed, key=lambda style: style.value)}
    style = table.take("thinking", str, default.value)
    if style not in styles:
        raise table.wrong("thinking", f"must be one of {', '.join(styles)}")
    efforts = _Table(f"{table.where} efforts", table.take("efforts", dict, {}))
    words = dict(ThinkingWords().efforts)
    for name, level in LEVELS.items():
        if efforts.has(name):
            words[level] = efforts.take(name, str)
    efforts.end()
    return ThinkingWords(styles[style], words)


def _plain(value: Any) -> Any:
    """For JSON, which knows no Decimal."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if isinstance(value, Decimal) else value


def habits_of(url: str) -> OpenAIOptions:
    """What is known of a host, for what the operator does not say."""
    host = urlsplit(url).hostname or ""
    if host == "api.openai.com":
        return OpenAIOptions(max_tokens_field="max_completion_tokens")
    if host.endswith("deepseek.com"):
        return OpenAIOptions(thinking=ThinkingWords(ThinkingStyle.TYPE), sends_reasoning=True)
    return OpenAIOptions()
