"""How a provider's failures become model errors whose text is safe to show.

A provider's own words may echo the request, and with it prompt and key. So only facts pass: the HTTP status, and the
error's type and code where they are plain names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import ModelError

_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z_]{0,47}")
_FINAL_NAME = re.compile(
    r"invalid|bad_?request|context_length|authenti|permission|not_?found|content_(policy|filter)|unsupported|quota",
    re.IGNORECASE,
)
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|request_too_large|prompt is too long|input is too long"
    r"|maximum context length|input token count[^.]{0,40}exceeds|context (window|size|length)[^.]{0,40}(exceed|too)"
    r"|exceed[^.]{0,60}context (window|size|length)",
    re.IGNORECASE,
)
_RETRYABLE_4XX = (408, 429)
_NO_CREDIT = "insufficient_quota"
"""Comes with the status of a busy provider, and no waiting helps."""


class ProviderError(ModelError):
    """A failure that the provider reported or that its connection had."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "MODEL_UNAVAILABLE",
        retryable: bool = True,
        retry_after_s: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message, reason=reason, retryable=retryable, usage=usage)
        self.retry_after_s = retry_after_s
        """Seconds that the provider asked to wait before another try."""


class ModelStalled(ModelError):
    """A time limit was reached. Safe to ask again, but the time was already waited for: no second try on its own."""


def fault_of_status(status: int, error: object, retry_after_s: float | None = None) -> ProviderError:
    """The error for an HTTP answer other than 200. `error` is the body's error object, or None."""
    facts = _facts(error)
    text = f"the model provider answered HTTP {status}{_in_brackets(facts)}"
    if 400 <= status < 500 and (status == 413 or _is_overflow(error)):
        return _overflow(text)
    if 300 <= status < 500 and (status not in _RETRYABLE_4XX or _NO_CREDIT in facts):
        return ProviderError(text, reason="MODEL_REFUSED", retryable=False)
    return ProviderError(text, retry_after_s=retry_after_s)


def fault_in_stream(error: object, usage: Usage | None = None) -> ProviderError:
    """The error for an error object inside a stream that began well."""
    facts = _facts(error)
    text = f"the model provider reported an error in its stream{_in_brackets(facts)}"
    if _is_overflow(error):
        return _overflow(text, usage)
    if any(_is_final(fact) for fact in facts):
        return ProviderError(text, reason="MODEL_REFUSED", retryable=False, usage=usage)
    return ProviderError(text, usage=usage)


def _overflow(text: str, usage: Usage | None = None) -> ProviderError:
    return ProviderError(
        f"the prompt does not fit into the model's window: {text}",
        reason="CONTEXT_TOO_LONG",
        retryable=False,
        usage=usage,
    )


def _is_overflow(error: object) -> bool:
    """Whether the prompt was too long. Some say so in words only; those are looked at and never shown."""
    if not isinstance(error, Mapping):
        return False
    said = " ".join(str(error.get(key))[:1000] for key in ("type", "code", "message"))
    return _OVERFLOW.search(said) is not None


def _facts(error: object) -> list[str]:
    if not isinstance(error, Mapping):
        return []
    facts: list[str] = []
    for key in ("type", "code"):
        value = error.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999:
            facts.append(str(value))
        elif isinstance(value, str) and _PLAIN_NAME.fullmatch(value) and value not in facts:
            facts.append(value)
    return facts


def _is_final(fact: str) -> bool:
    if fact.isdecimal():
        return 400 <= int(fact) < 500 and int(fact) not in _RETRYABLE_4XX
    return _FINAL_NAME.search(fact) is not None


def _in_brackets(facts: list[str]) -> str:
    return f" ({', '.join(facts)})" if facts else ""
