"""One place that turns a provider's stream into one finished message, whatever the provider's habits.

Formats (`openai_stream.py`, `anthropic_stream.py`) say what came; this says what it makes. Habits that are met here:
identifiers that repeat as empty strings, that are missing or that return in later rounds; calls that share an index or
have none; names and arguments that come in pieces, or twice; labels that say "stop" over complete calls; characters cut
in halves by escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from netaclaw.session.v1.entry_pb2 import (
    FinishReason,
    Message,
    MessageRole,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolCallState,
)
from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import ModelError, NewId, TextDelta, ThinkingDelta
from netaclaw_agent.models.faults import ProviderError
from netaclaw_agent.usage import MAX_TOKENS

Delta = TextDelta | ThinkingDelta

MAX_CALLS = 256
"""Most calls of one answer: with their results they stand in one entry."""
_MAX_NAME = 200
"""Characters of a call's name that are kept: no tool has a longer one."""
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class _Run:
    """Text of one kind that came without interruption, or a piece of reasoning with its seal."""

    thinking: bool
    pieces: list[str] = field(default_factory=list)
    half: str = ""
    """The first half of a character whose second half is still to come."""
    signature: str = ""
    redacted: str = ""

    def clean(self, text: str) -> str:
        if not self.half and text.isascii():
            return text
        text, self.half = self.half + text, ""
        if not _HALF_CHARACTER.search(text):
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return whole_characters(text)


@dataclass(slots=True)
class _Call:
    """One tool call while its fragments arrive."""

    call_id: str
    provider_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def arguments(self) -> str:
        text = "".join(self.pieces)
        return text if text.isascii() or not _HALF_CHARACTER.search(text) else whole_characters(text)

    def settled(self) -> str:
        """The arguments in the end: as they add up, or the last fragment where each held all that came before it."""
        text = self.arguments
        grows = len(self.pieces) > 1 and all(map(str.startswith, self.pieces[1:], self.pieces))
        return self.pieces[-1] if grows and not _is_json(text) and _is_json(self.pieces[-1]) else text

    @property
    def asks_nothing(self) -> bool:
        """Neither name nor arguments: some servers end with such a fragment."""
        return not self.name.strip() and not self.arguments.strip()

    @property
    def is_whole(self) -> bool:
        return bool(self.name) and self.has_whole_arguments

    @property
    def has_whole_arguments(self) -> bool:
        # Asked for with many a fragment: the last character alone mostly settles it.
        unfinished = self.pieces and self.pieces[0].startswith("{") and not self.pieces[-1].rstrip().endswith("}")
        return not unfinished and _is_json(self.settled())

    def take(self, provider_id: str, name: str, arguments: str) -> None:
        """One more fragment: an identifier that comes again is no news, a name that differs goes on."""
        self.provider_id = self.provider_id or provider_id
        if name and name != self.name and not self.pieces:
            self.name = name if name.startswith(self.name) else self.name + name
        if arguments and not (name and len(arguments) == self.size and arguments == self.arguments):
            self.pieces.append(arguments)
            self.size += len(arguments)


class MessageAssembler:
    """Builds one message. Arguments are kept byte for byte as text; call ids are ours, the provider's stand beside."""

    def __init__(self, model: str, new_id: NewId) -> None:
        self._model = model
        self._new_id = new_id
        self._parts: list[_Run | _Call] = []
        self._run: _Run | None = None
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._cut = FinishReason.FINISH_REASON_UNSPECIFIED
        self._ended = False
        self.started = False
        """True once anything of the answer itself arrived."""
        self.whole = False
        """True once nothing more of the answer itself can come, only what was counted and the end mark."""
        self.usage = Usage(model_calls=1)
        """What the provider has reported so far."""

    def add(self, text: str, thinking: bool, deltas: list[Delta]) -> None:
        """More text or reasoning; what can be shown of it is appended to `deltas`."""
        run = self._run
        if run is None or run.thinking is not thinking:
            run = self._begin(thinking)
        self.started = True
        text = run.clean(text)
        if text:
            run.pieces.append(text)
            deltas.append(ThinkingDelta(text) if thinking else TextDelta(text))

    def begin_block(self) -> None:
        """What comes next is a part of its own, even of the same kind."""
        self._run = None

    def sign(self, signature: str) -> None:
        """More of the signature of the reasoning that came last, which may have had no text."""
        run = self._run if self._run is not None and self._run.thinking else self._begin(True)
        run.signature += whole_characters(signature)

    def redact(self, data: str) -> None:
        """A block of reasoning that the provider shows to itself only."""
        self._begin(True).redacted = whole_characters(data)
        self._run = None
        self.started = True

    def add_fragment(self, index: object, provider_id: object, name: object, arguments: object) -> None:
        """A piece of a tool call. Arguments that are no text are written as JSON; None is no piece."""
        provider_id = provider_id if isinstance(provider_id, str) else "" if provider_id is None else str(provider_id)
        name = name if isinstance(name, str) else ""
        index = _number(index)
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        self.started = True
        self._call_of(index, provider_id, name, arguments).take(provider_id, name, arguments)

    def end(self, cut: FinishReason = FinishReason.FINISH_REASON_UNSPECIFIED, *, for_certain: bool = False) -> None:
        """The provider says that the answer has ended; `cut` when by length or filter, which no later word undoes.

        `for_certain`: in a word that means nothing else; some servers write odd ones into every chunk.
        """
        self._ended = True
        self.whole = self.whole or for_certain
        self._cut = cut or self._cut

    def count(self, **tokens: int) -> None:
        """Tokens reported so far, by the names of Usage. Reports are totals, so the larger one stands."""
        for name, value in tokens.items():
            setattr(self.usage, name, max(getattr(self.usage, name), value))

    def message(self, *, done: bool) -> Message:
        """The finished message. `done` says that the stream ended with its own end mark.

        Complete calls decide, not the label: with calls the reason is TOOL_CALLS, unless the provider cut the answer by
        length or filter; then calls that are not whole are dropped and text stays. Raises ModelError when the stream
        ended with neither mark nor label, or with a call that has no name.
        """
        if not (done or self._ended):
            raise ProviderError("the model provider's stream ended early", usage=self.usage)
        message = Message(role=MessageRole.MESSAGE_ROLE_ASSISTANT, model=self._model, usage=self.usage)
        has_calls = False
        for part in self._parts:
            if isinstance(part, _Run):
                _append_text(message, part)
                continue
            if self._cut and not part.is_whole:
                continue
            if part.asks_nothing and (has_calls or not part.provider_id):
                continue
            if not part.name:
                raise ProviderError("the model provider sent a tool call without a name", usage=self.usage)
            has_calls = True
            message.parts.append(_call_part(part))
        plain = FinishReason.FINISH_REASON_TOOL_CALLS if has_calls else FinishReason.FINISH_REASON_STOP
        message.finish_reason = self._cut or plain
        return message

    def _begin(self, thinking: bool) -> _Run:
        self._run = _Run(thinking)
        self._parts.append(self._run)
        return self._run

    def _call_of(self, index: int | None, provider_id: str, name: str, arguments: str) -> _Call:
        """The call that a fragment belongs to; a new one when it begins one.

        The index decides where there is one; a fragment that brings no name under an unknown index belongs to the call
        with its id, or to the last one while that is unfinished.
        """
        known = self._by_index.get(index) if index is not None else None
        if known is None and provider_id and (not name or index is None):
            known = next((call for call in self._calls if call.provider_id == provider_id), None)
        if known is None and not name and not provider_id and self._calls and not self._calls[-1].is_whole:
            known = self._calls[-1]
        if known is None or _begins_another(known, provider_id, name, arguments):
            if len(self._calls) >= MAX_CALLS:
                raise ModelError(f"the answer has more than {MAX_CALLS} calls", reason="LIMIT_REACHED", retryable=False)
            known = _Call(self._new_id())
            self._calls.append(known)
            self._parts.append(known)
            self._run = None
        if index is not None:
            self._by_index[index] = known
        return known


def _number(index: object) -> int | None:
    """The index as a number, however it is written; None for none."""
    if isinstance(index, str) and index.isdecimal() and len(index) < 10:
        return int(index)
    return int(index) if isinstance(index, int | float) and index == index // 1 else None


def _begins_another(call: _Call, provider_id: str, name: str, arguments: str) -> bool:
    """Whether a fragment begins a call although its index is taken: some servers number every call 0."""
    if not name or not call.name:
        return False
    if provider_id and call.provider_id:
        return provider_id != call.provider_id
    differs = bool(call.pieces) and name != call.name
    return (differs or arguments.lstrip().startswith("{")) and call.has_whole_arguments


def _append_text(message: Message, run: _Run) -> None:
    text = "".join(run.pieces)
    if run.thinking and (text or run.signature or run.redacted):
        thinking = ThinkingPart(text=text, signature=run.signature, redacted=run.redacted)
        message.parts.append(Part(thinking=thinking))
    elif text:
        message.parts.append(Part(text=TextPart(text=text)))


def _call_part(call: _Call) -> Part:
    return Part(
        tool_call=ToolCallPart(
            call_id=call.call_id,
            provider_call_id=whole_characters(call.provider_id),
            tool_name=whole_characters(call.name).strip()[:_MAX_NAME],
            arguments_json=call.settled(),
            state=ToolCallState.TOOL_CALL_STATE_PENDING,
        )
    )


def whole_characters(text: str) -> str:
    """The text with halves of characters joined; a half that stays alone cannot be UTF-8 and is replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def token_count(holder: object, key: str) -> int:
    """A number of tokens in what a provider reported; 0 for anything that cannot be one."""
    value = holder.get(key) if isinstance(holder, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_TOKENS:
        return 0
    return int(value)
