"""`netaclaw keys`: make, list and revoke API keys of a running suite."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import Console
from rich.table import Column, Table

from netaclaw.store.v1.identity_service_pb2 import ApiKey, CreateKeyRequest, ListKeysRequest, RevokeKeyRequest
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceStub
from netaclaw_chassis.channel import connect
from netaclaw_cli import places
from netaclaw_cli.access import Access
from netaclaw_cli.wording import clean

if TYPE_CHECKING:  # a name of the type stubs only
    from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceAsyncStub

_WITHIN_S = 10.0
_DAY_S = 86_400


async def create(arguments: argparse.Namespace) -> int:
    """Make a key for an owner and print its secret, which is not shown again."""
    request = CreateKeyRequest(owner_id=arguments.owner, name=arguments.name)
    if arguments.days is not None:
        request.expire_time.FromNanoseconds(int((time.time() + arguments.days * _DAY_S) * 1e9))
    async with _identity(arguments) as identity:
        made = await identity.CreateKey(request, timeout=_WITHIN_S)
    print(made.secret)
    Console(stderr=True).print(f"key {made.key_id} of {arguments.owner}; this secret is not shown again", markup=False)
    return 0


async def show(arguments: argparse.Namespace) -> int:
    """Print all keys, newest first."""
    table = Table(Column("key", no_wrap=True, min_width=36), "owner", "name", "made", "state")
    request = ListKeysRequest(owner_id=arguments.owner or "")
    async with _identity(arguments) as identity:
        while True:
            page = await identity.ListKeys(request, timeout=_WITHIN_S)
            for key in page.keys:
                row = (key.key_id, key.owner_id, key.name, _day(key.create_time), _state(key))
                table.add_row(*map(clean, row))
            request.page_token = page.next_page_token
            if not request.page_token:
                break
    Console(markup=False).print(table)
    return 0


async def revoke(arguments: argparse.Namespace) -> int:
    """Revoke a key; what it opened ends within a minute."""
    async with _identity(arguments) as identity:
        await identity.RevokeKey(RevokeKeyRequest(key_id=arguments.key), timeout=_WITHIN_S)
    print(f"{arguments.key} is revoked")
    return 0


@asynccontextmanager
async def _identity(arguments: argparse.Namespace) -> AsyncIterator[IdentityServiceAsyncStub]:
    access = Access.read(places.data_dir(arguments.data_dir, os.environ))
    async with connect(access.store_internal, access.service_token, access.open_link()) as channel:
        yield IdentityServiceStub(channel)


def _state(key: ApiKey) -> str:
    if key.HasField("revoke_time"):
        return f"revoked {_day(key.revoke_time)}"
    if not key.HasField("expire_time"):
        return "valid"
    expired = key.expire_time.ToNanoseconds() < time.time_ns()
    return f"expired {_day(key.expire_time)}" if expired else f"valid until {_day(key.expire_time)}"


def _day(moment: Timestamp) -> str:
    return moment.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%d %H:%M")
