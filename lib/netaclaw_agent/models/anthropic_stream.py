"""What the events of Anthropic's Messages API say."""

from __future__ import annotations

from typing import Any

from netaclaw.session.v1.entry_pb2 import FinishReason
from netaclaw_agent.models.assembler import Delta, MessageAssembler, token_count
from netaclaw_agent.models.faults import ProviderError, fault_in_stream

_CUTS = {
    "max_tokens": FinishReason.FINISH_REASON_LENGTH,
    "model_context_window_exceeded": FinishReason.FINISH_REASON_LENGTH,
    "refusal": FinishReason.FINISH_REASON_CONTENT_FILTER,
}


class AnthropicReader:
    """Reads the events of one answer, decoded from JSON, into an assembler. Unknown events and blocks are passed
    over: the API adds some from time to time."""

    def __init__(self, assembler: MessageAssembler) -> None:
        self.assembler = assembler
        self.done = False
        """`message_stop` came."""
        self._inputs: dict[object, object] = {}
        """Inputs that a call's block began with, until a delta shows that they come in pieces."""

    def read(self, event: object) -> list[Delta]:
        """Take one event; return what it adds to text and thinking, in order.

        Raises ModelError for an `error` event and for one that is not an object.
        """
        if not isinstance(event, dict):
            raise ProviderError("the model provider sent an event that is not a JSON object")
        deltas: list[Delta] = []
        match event.get("type"):
            case "error":
                raise fault_in_stream(event.get("error"))
            case "message_start":
                self._take_usage(_object(event.get("message")).get("usage"))
            case "content_block_start":
                self._begin_block(event.get("index"), _object(event.get("content_block")), deltas)
            case "content_block_delta":
                self._take_delta(event.get("index"), _object(event.get("delta")), deltas)
            case "content_block_stop":
                self._end_block(event.get("index"))
            case "message_delta":
                self._take_usage(event.get("usage"))
                self._take_reason(_object(event.get("delta")).get("stop_reason"))
            case "message_stop":
                self.done = True
            case "message":
                self._take_whole(event, deltas)
        return deltas

    def finish(self) -> list[Delta]:
        """No more events will come. Nothing is held back in this format but a call's whole input."""
        for index in list(self._inputs):
            self._end_block(index)
        return []

    def _begin_block(self, index: object, block: dict[str, Any], deltas: list[Delta]) -> None:
        assembler = self.assembler
        assembler.begin_block()
        match block.get("type"):
            case "text":
                self._add(block.get("text"), False, deltas)
            case "thinking":
                self._add(block.get("thinking"), True, deltas)
                self._sign(block.get("signature"))
            case "redacted_thinking":
                if isinstance(block.get("data"), str):
                    assembler.redact(block["data"])
            case "tool_use":
                assembler.add_fragment(_key(index), block.get("id"), block.get("name"), None)
                self._inputs[_key(index)] = block.get("input")

    def _take_delta(self, index: object, delta: dict[str, Any], deltas: list[Delta]) -> None:
        match delta.get("type"):
            case "text_delta":
                self._add(delta.get("text"), False, deltas)
            case "thinking_delta":
                self._add(delta.get("thinking"), True, deltas)
            case "signature_delta":
                self._sign(delta.get("signature"))
            case "input_json_delta":
                piece = delta.get("partial_json")
                if piece and isinstance(piece, str):
                    self._inputs.pop(_key(index), None)
                    self.assembler.add_fragment(_key(index), None, None, piece)

    def _end_block(self, index: object) -> None:
        """A call whose input came whole, or that has none."""
        key = _key(index)
        if key in self._inputs:
            whole = self._inputs.pop(key)
            self.assembler.add_fragment(key, None, None, whole if isinstance(whole, dict) else {})

    def _take_whole(self, message: dict[str, Any], deltas: list[Delta]) -> None:
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            self._begin_block(index, _object(block), deltas)
            self._end_block(index)
        self._take_usage(message.get("usage"))
        self._take_reason(message.get("stop_reason"))

    def _add(self, text: object, thinking: bool, deltas: list[Delta]) -> None:
        if text and isinstance(text, str):
            self.assembler.add(text, thinking, deltas)

    def _sign(self, signature: object) -> None:
        if signature and isinstance(signature, str):
            self.assembler.sign(signature)

    def _take_reason(self, reason: object) -> None:
        if reason and isinstance(reason, str):
            self.assembler.end(_CUTS.get(reason, FinishReason.FINISH_REASON_UNSPECIFIED), for_certain=True)

    def _take_usage(self, usage: object) -> None:
        """Input is what was not cached, what was written to the cache and what was read from it, apart."""
        cached = token_count(usage, "cache_read_input_tokens")
        written = token_count(usage, "cache_creation_input_tokens")
        self.assembler.count(
            input_tokens=token_count(usage, "input_tokens") + cached + written,
            output_tokens=token_count(usage, "output_tokens"),
            cached_input_tokens=cached,
        )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _key(index: object) -> int:
    return index if isinstance(index, int) else 0
