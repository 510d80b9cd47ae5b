"""Token usage as columns keep it: JSON, with the keys of the source design first."""

from __future__ import annotations

import json
from collections.abc import Sequence

from netaclaw.session.v1.entry_pb2 import Entry
from netaclaw.session.v1.usage_pb2 import Usage


def usage_json(usage: Usage) -> str:
    """A column's value."""
    return json.dumps(
        {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "cachedInputTokens": usage.cached_input_tokens,
            "reasoningTokens": usage.reasoning_tokens,
            "modelCalls": usage.model_calls,
            "costMicros": usage.cost_micros,
            "estimatedCalls": usage.estimated_calls,
        }
    )


def added(known: str | None, more: Sequence[Usage]) -> str | None:
    """A column's value with more added to it."""
    return total([*map(usage_json, more), *filter(None, [known])])


def total(columns: Sequence[str]) -> str | None:
    """The sum of several columns' values."""
    sums = [json.loads(each) for each in columns]
    return json.dumps({key: sum(each[key] for each in sums) for key in sums[0]}) if sums else None


def entry_usage(entry: Entry) -> str | None:
    """Of the model call that made the entry, if one did."""
    body = entry.WhichOneof("body")
    if body not in ("assistant", "compaction", "branch_summary"):
        return None
    made = getattr(entry, body)
    return usage_json(made.usage) if made.HasField("usage") else None
