"""`netaclaw models`: what agents can name, what it can do, and what it costs."""

from __future__ import annotations

import argparse
import os

from rich.console import Console
from rich.table import Column, Table

from netaclaw.model.v1.model_pb2 import MODEL_AVAILABILITY_AVAILABLE, Model, ModelPrices
from netaclaw.model.v1.model_service_pb2 import ListModelsRequest
from netaclaw_cli import places
from netaclaw_cli.wording import clean
from netaclaw_client import Client

_WITHIN_S = 10.0
_MICROS = 1_000_000


async def run(arguments: argparse.Namespace) -> int:
    """Print the catalogue of a running suite, in name order."""
    table = Table(
        Column("model", no_wrap=True), "provider", Column("window", justify="right"), "takes", "per million", "state"
    )
    async with Client(places.gateway_address(arguments.address, os.environ)) as client:
        for model in await _all(client):
            name = f"{model.name} (default)" if model.is_default else model.name
            row = (name, model.provider, _window(model), _takes(model), _price(model), _state(model))
            table.add_row(*map(clean, row))
    Console(markup=False).print(table)
    return 0


async def _all(client: Client) -> list[Model]:
    request = ListModelsRequest(page_size=1000)
    found: list[Model] = []
    while True:
        page = await client.models.ListModels(request, timeout=_WITHIN_S)
        found += page.models
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


def _window(model: Model) -> str:
    most = f", {model.max_output_tokens} out" if model.max_output_tokens else ""
    return f"{model.context_window}{most}"


def _takes(model: Model) -> str:
    words = {"tools": model.takes_tools, "thinking": model.takes_thinking_level}
    return ", ".join(word for word, has in words.items() if has)


def _price(model: Model) -> str:
    """For prompt and answer; empty where none is stated."""
    if not model.HasField("prices"):
        return ""
    prices: ModelPrices = model.prices
    return " / ".join(f"{micros / _MICROS:g}" for micros in (prices.input_micros, prices.output_micros))


def _state(model: Model) -> str:
    return "ready" if model.availability == MODEL_AVAILABILITY_AVAILABLE else model.unavailable_reason
