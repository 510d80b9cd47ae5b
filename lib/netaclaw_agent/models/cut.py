"""What a model call cost that was stopped in the middle, so that its provider never said it."""

from __future__ import annotations

from netaclaw.session.v1.usage_pb2 import Usage
from netaclaw_agent.model import Model, ModelCall
from netaclaw_agent.models.offered import OfferedModel
from netaclaw_agent.tokens import estimate_tokens, prompt_tokens


def cut_usage(model: Model, call: ModelCall, shown: str) -> Usage:
    """Estimated from the prompt and from the text and thinking that had come; no tokens where nothing had."""
    usage = Usage(model_calls=1, estimated_calls=1)
    if shown:
        usage.input_tokens = prompt_tokens(call.system, call.messages, call.tools)
        usage.output_tokens = estimate_tokens(shown)
        if isinstance(model, OfferedModel):  # only the catalogue knows prices
            usage.cost_micros = model.price(usage)
    return usage
