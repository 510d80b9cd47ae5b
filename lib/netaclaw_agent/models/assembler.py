"""One place that turns a provider's chunks into deltas and one finished message, whatever the provider's habits.

Chunks are those of OpenAI-style chat completions, already decoded from JSON. Habits that are met here: identifiers
that repeat as empty strings, that are missing or that return in later rounds; calls that share an index or have none;
labels that say "stop" over complete calls; characters cut in halves by escapes; reasoning in fields of several names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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
from netaclaw_agent.model import NewId, TextDelta, ThinkingDelta
from netaclaw_agent.models.faults import ProviderError, fault_in_stream

Delta = TextDelta | ThinkingDelta

_LENGTH = FinishReason.FINISH_REASON_LENGTH
_FILTER = FinishReason.FINISH_REASON_CONTENT_FILTER
_CUTS = {
    "length": _LENGTH,
    "max_tokens": _LENGTH,
    "model_length": _LENGTH,
    "content_filter": _FILTER,
    "content-filter": _FILTER,
    "safety": _FILTER,
}
_FAILED_LABELS = frozenset({"error", "abort", "insufficient_system_resource"})
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
_MOST_TOKENS = 2**53


@dataclass(slots=True)
class _Run:
    """Text of one kind that came without interruption."""

    thinking: bool
    pieces: list[str] = field(default_factory=list)
    half: str = ""
    """The first half of a character whose second half is still to come."""

    def clean(self, text: str) -> str:
        if not self.half and text.isascii():
            return text
        text, self.half = self.half + text, ""
        if not _HALF_CHARACTER.search(text):
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            text, self.half = text[:-1], text[-1]
        return _whole_characters(text)


@dataclass(slots=True)
class _Call:
    """One tool call while its fragments arrive."""

    call_id: str
    provider_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        text = "".join(self.pieces)
        return text if text.isascii() or not _HALF_CHARACTER.search(text) else _whole_characters(text)

    @property
    def is_whole(self) -> bool:
        return bool(self.name) and _is_json(self.arguments)


class ChunkAssembler:
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
        self.usage = Usage(model_calls=1)
        """What the provider has reported so far."""

    def add(self, chunk: object) -> list[Delta]:
        """Take one chunk; return what it adds to text and thinking, in order.

        Raises ModelError for an error object, a label that says the call failed, and a chunk that is not an object.
        """
        if not isinstance(chunk, dict):
            raise ProviderError("the model provider sent an event that is not a JSON object", usage=self.usage)
        if chunk.get("error"):
            raise fault_in_stream(chunk["error"], self.usage)
        usage = chunk.get("usage")
        if usage:
            self._take_usage(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return []
        choice = choices[0]
        if not isinstance(choice, dict) or choice.get("index"):
            return []
        delta = choice.get("delta") or choice.get("message")
        deltas: list[Delta] = self._take_delta(delta) if isinstance(delta, dict) else []
        label = choice.get("finish_reason")
        if label:
            self._take_label(label)
        return deltas

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
            if not part.name:
                raise ProviderError("the model provider sent a tool call without a name", usage=self.usage)
            has_calls = True
            message.parts.append(_call_part(part))
        plain = FinishReason.FINISH_REASON_TOOL_CALLS if has_calls else FinishReason.FINISH_REASON_STOP
        message.finish_reason = self._cut or plain
        return message

    def _take_delta(self, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and isinstance(thinking, str):
            self._take_text(thinking, True, deltas)
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._take_text(content, False, deltas)
            elif isinstance(content, list):
                self._take_content_parts(content, deltas)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._take_text(refusal, False, deltas)
        fragments = delta.get("tool_calls")
        if fragments and isinstance(fragments, list):
            for fragment in fragments:
                if isinstance(fragment, dict):
                    self._take_fragment(fragment)
        return deltas

    def _take_text(self, text: str, thinking: bool, deltas: list[Delta]) -> None:
        run = self._run
        if run is None or run.thinking is not thinking:
            run = self._run = _Run(thinking)
            self._parts.append(run)
        self.started = True
        text = run.clean(text)
        if text:
            run.pieces.append(text)
            deltas.append(ThinkingDelta(text) if thinking else TextDelta(text))

    def _take_content_parts(self, content: list[object], deltas: list[Delta]) -> None:
        for part in content:
            if not isinstance(part, dict):
                continue
            thinking = part.get("thinking")
            if isinstance(thinking, list):
                thinking = "".join(
                    p["text"] for p in thinking if isinstance(p, dict) and isinstance(p.get("text"), str)
                )
            if thinking and isinstance(thinking, str):
                self._take_text(thinking, True, deltas)
            elif isinstance(part.get("text"), str) and part["text"]:
                self._take_text(part["text"], False, deltas)

    def _take_fragment(self, fragment: dict[str, Any]) -> None:
        function = fragment.get("function")
        if not isinstance(function, dict):
            function = {}
        provider_id, name, arguments = fragment.get("id"), function.get("name"), function.get("arguments")
        provider_id = provider_id if isinstance(provider_id, str) else "" if provider_id is None else str(provider_id)
        name = name if isinstance(name, str) else ""
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        self.started = True
        call = self._call_of(fragment.get("index"), provider_id, name, arguments)
        call.provider_id = call.provider_id or provider_id
        call.name = call.name or name
        if arguments:
            call.pieces.append(arguments)

    def _call_of(self, index: object, provider_id: str, name: str, arguments: str) -> _Call:
        """The call that a fragment belongs to; a new one when it begins one.

        The index decides where there is one; a fragment that brings no name under an unknown index belongs to the call
        with its id, or to the last one while that is unfinished.
        """
        known = self._by_index.get(index) if isinstance(index, int) else None
        if known is None and provider_id and (not name or not isinstance(index, int)):
            known = next((call for call in self._calls if call.provider_id == provider_id), None)
        if known is None and not name and not provider_id and self._calls and not self._calls[-1].is_whole:
            known = self._calls[-1]
        if known is None or _begins_another(known, provider_id, name, arguments):
            known = _Call(self._new_id())
            self._calls.append(known)
            self._parts.append(known)
            self._run = None
        if isinstance(index, int):
            self._by_index[index] = known
        return known

    def _take_label(self, label: object) -> None:
        word = label.lower() if isinstance(label, str) else ""
        if word in _FAILED_LABELS:
            raise ProviderError("the model provider ended the answer with an error", usage=self.usage)
        self._ended = True
        self._cut = _CUTS.get(word, self._cut)

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, Mapping):
            return
        prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        cached = _count(prompt, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")
        self.usage = Usage(
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            cached_input_tokens=cached,
            reasoning_tokens=_count(completion, "reasoning_tokens"),
            model_calls=1,
        )


def _begins_another(call: _Call, provider_id: str, name: str, arguments: str) -> bool:
    """Whether a fragment begins a call although its index is taken: some servers number every call 0."""
    if not name or not call.name:
        return False
    if provider_id and call.provider_id:
        return provider_id != call.provider_id
    return arguments.lstrip().startswith("{") and _is_json(call.arguments)


def _append_text(message: Message, run: _Run) -> None:
    text = "".join(run.pieces)
    if not text:
        return
    if run.thinking:
        message.parts.append(Part(thinking=ThinkingPart(text=text)))
    else:
        message.parts.append(Part(text=TextPart(text=text)))


def _call_part(call: _Call) -> Part:
    return Part(
        tool_call=ToolCallPart(
            call_id=call.call_id,
            provider_call_id=_whole_characters(call.provider_id),
            tool_name=_whole_characters(call.name),
            arguments_json=call.arguments,
            state=ToolCallState.TOOL_CALL_STATE_PENDING,
        )
    )


def _whole_characters(text: str) -> str:
    """The text with halves of characters joined; a half that stays alone cannot be UTF-8 and is replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _count(holder: object, key: str) -> int:
    value = holder.get(key) if isinstance(holder, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_TOKENS:
        return 0
    return int(value)
