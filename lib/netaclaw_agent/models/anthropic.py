"""Anthropic's Messages API, and servers that speak it."""

from __future__ import annotations

from collections.abc import Mapping

from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.anthropic_request import AnthropicOptions, request_bytes
from netaclaw_agent.models.anthropic_stream import AnthropicReader
from netaclaw_agent.models.assembler import MessageAssembler
from netaclaw_agent.models.http_model import HttpModel
from netaclaw_agent.models.limits import StreamLimits

API_VERSION = "2023-06-01"


class _AnthropicFormat:
    path = "v1/messages"

    def __init__(self, model: str, api_key: str, options: AnthropicOptions) -> None:
        self._model = model
        self._options = options
        key = {"x-api-key": api_key} if api_key else {}
        self.headers: Mapping[str, str] = {"anthropic-version": API_VERSION, **key}

    def request(self, call: ModelCall) -> bytes:
        return request_bytes(call, self._model, self._options)

    def reader(self, assembler: MessageAssembler) -> AnthropicReader:
        return AnthropicReader(assembler)


class AnthropicModel(HttpModel):
    """One model behind the Messages API."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        api_key: str,
        model: str,
        context_window: int,
        limits: StreamLimits,
        options: AnthropicOptions | None = None,
    ) -> None:
        """`base_url` without the version, for example "https://api.anthropic.com". An empty key is not sent."""
        super().__init__(
            name=name,
            base_url=base_url,
            provider_model=model,
            context_window=context_window,
            limits=limits,
            form=_AnthropicFormat(model, api_key, options or AnthropicOptions()),
        )
