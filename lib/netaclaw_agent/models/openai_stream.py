"""What OpenAI-style chat completion chunks say, in whatever dialect.

Habits that are met here: reasoning in fields of several names, in content parts or between tags; a whole message in the
place of a delta; the older `function_call`; labels of several spellings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netaclaw.session.v1.entry_pb2 import FinishReason
from netaclaw_agent.models.assembler import Delta, MessageAssembler, token_count
from netaclaw_agent.models.faults import ProviderError, fault_in_stream
from netaclaw_agent.models.think_tags import ThinkTags

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
_ENDS = frozenset({"stop", "tool_calls", "function_call"})
_FAILED_LABELS = frozenset({"error", "abort", "insufficient_system_resource"})


class OpenAIReader:
    """Reads the chunks of one answer, decoded from JSON, into an assembler."""

    done = False
    """The format has no end mark of its own inside its chunks: `[DONE]` stands beside them."""

    def __init__(self, assembler: MessageAssembler, tags: ThinkTags | None = None) -> None:
        self.assembler = assembler
        self._tags = tags if tags is not None else ThinkTags()

    def read(self, chunk: object) -> list[Delta]:
        """Take one chunk; return what it adds to text and thinking, in order.

        Raises ModelError for an error object, a label that says the call failed, and a chunk that is not an object.
        """
        if not isinstance(chunk, dict):
            raise ProviderError("the model provider sent an event that is not a JSON object")
        error = chunk.get("error") or (chunk if chunk.get("object") == "error" else None)
        if error:
            raise fault_in_stream(error)
        usage = chunk.get("usage")
        if usage:
            self._take_usage(usage)
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return []
        choice = next((each for each in choices if isinstance(each, dict) and not each.get("index")), None)
        if choice is None:
            return []
        if choice.get("usage"):
            self._take_usage(choice["usage"])
        delta = choice.get("delta")
        if not delta and not self.assembler.started:  # a message beside deltas would say everything twice
            delta = choice.get("message")
        deltas: list[Delta] = []
        if isinstance(delta, dict):
            self._take_delta(delta, deltas)
        label = choice.get("finish_reason")
        if label:
            self._take_label(label)
        return deltas

    def finish(self) -> list[Delta]:
        """No more chunks will come; what was held back becomes text."""
        deltas: list[Delta] = []
        for thinking, text in self._tags.finish():
            self.assembler.add(text, thinking, deltas)
        return deltas

    def _take_delta(self, delta: dict[str, Any], deltas: list[Delta]) -> None:
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking and isinstance(thinking, str):
            self.assembler.add(thinking, True, deltas)
        content = delta.get("content")
        if content:
            if isinstance(content, str):
                self._take_text(content, deltas)
            elif isinstance(content, list):
                self._take_content_parts(content, deltas)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._take_text(refusal, deltas)
        fragments = delta.get("tool_calls")
        if fragments and isinstance(fragments, list):
            for fragment in fragments:
                if isinstance(fragment, dict):
                    self._take_fragment(fragment)
        function = delta.get("function_call")
        if function and isinstance(function, dict):
            self._take_fragment({"function": function})

    def _take_text(self, text: str, deltas: list[Delta]) -> None:
        for thinking, piece in self._tags.feed(text):
            self.assembler.add(piece, thinking, deltas)

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
                self.assembler.add(thinking, True, deltas)
            elif isinstance(part.get("text"), str) and part["text"]:
                self._take_text(part["text"], deltas)

    def _take_fragment(self, fragment: dict[str, Any]) -> None:
        function = fragment.get("function")
        if not isinstance(function, dict):
            function = {}
        self.assembler.add_fragment(
            fragment.get("index"), fragment.get("id"), function.get("name"), function.get("arguments")
        )

    def _take_label(self, label: object) -> None:
        word = label.lower() if isinstance(label, str) else ""
        if word in _FAILED_LABELS:
            raise ProviderError("the model provider ended the answer with an error")
        cut = _CUTS.get(word, FinishReason.FINISH_REASON_UNSPECIFIED)
        self.assembler.end(cut, for_certain=bool(cut) or word in _ENDS)

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, Mapping):
            return
        prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
        self.assembler.count(
            input_tokens=token_count(usage, "prompt_tokens"),
            output_tokens=token_count(usage, "completion_tokens"),
            cached_input_tokens=token_count(prompt, "cached_tokens") or token_count(usage, "prompt_cache_hit_tokens"),
            reasoning_tokens=token_count(completion, "reasoning_tokens"),
        )
