"""Any server that speaks OpenAI's streaming chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from netaclaw_agent.model import ModelCall
from netaclaw_agent.models.assembler import MessageAssembler
from netaclaw_agent.models.http_model import HttpModel
from netaclaw_agent.models.limits import StreamLimits
from netaclaw_agent.models.openai_request import OpenAIOptions, request_body
from netaclaw_agent.models.openai_stream import OpenAIReader
from netaclaw_agent.models.think_tags import ThinkTags


class _OpenAIFormat:
    path = "chat/completions"

    def __init__(self, model: str, api_key: str, options: OpenAIOptions) -> None:
        self._model = model
        self._options = options
        self.headers: Mapping[str, str] = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def request(self, call: ModelCall) -> bytes:
        return json.dumps(request_body(call, self._model, self._options), ensure_ascii=False).encode()

    def reader(self, assembler: MessageAssembler) -> OpenAIReader:
        tags = ThinkTags(self._options.reasoning_tag, opened=self._options.reasoning_tag_implied)
        return OpenAIReader(assembler, tags)


class OpenAIModel(HttpModel):
    """One model of one OpenAI-compatible server."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        api_key: str,
        model: str,
        context_window: int,
        limits: StreamLimits,
        options: OpenAIOptions | None = None,
    ) -> None:
        """An empty key: no Authorization header is sent."""
        super().__init__(
            name=name,
            base_url=base_url,
            provider_model=model,
            context_window=context_window,
            limits=limits,
            form=_OpenAIFormat(model, api_key, options or OpenAIOptions()),
        )
