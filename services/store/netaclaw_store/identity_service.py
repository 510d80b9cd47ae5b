"""API keys: 256 random bits each, of which only a SHA-256 hash is kept.

A fast hash is enough because the secret is not a person's choice: there is nothing to guess.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Any

import asyncpg
import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1 import identity_service_pb2 as p
from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceServicer
from netaclaw_chassis.errors import NetaclawError, Violations
from netaclaw_chassis.ids import new_id
from netaclaw_store.checks import MAX_OWNER_ID, check_name, check_text
from netaclaw_store.codec import moment, timestamp
from netaclaw_store.database import Database
from netaclaw_store.pages import read_token, write_token
from netaclaw_store.queries import SQL

Context = grpc.aio.ServicerContext[Any, Any]

PREFIX = "ncl_"
_MAX_NAME = 100
_MAX_SECONDS = 253_402_300_799
_MAX_CHECKED = 10_000
_PAGE = 1000
_CARRIED = re.compile(r"[!-~]([ -~]*[!-~])?")
"""An owner's name that the metadata of calls carries as it is, through every door."""
_NOT_CARRIED = "has other characters than printable ASCII, or spaces around it"


class IdentityService(IdentityServiceServicer):
    """IdentityService on the internal port."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def VerifyKey(self, request: p.VerifyKeyRequest, context: Context) -> p.VerifyKeyResponse:
        digest = _digest(request.secret)
        row = await self._database.read(lambda connection: connection.fetchrow(SQL["verify_key"], digest))
        if row is None:
            raise NetaclawError(Reason.REASON_UNAUTHENTICATED, "the key is unknown, expired or revoked")
        response = p.VerifyKeyResponse(owner_id=row["owner_id"], key_id=row["key_id"])
        if row["expire_time"] is not None:
            response.expire_time.CopyFrom(timestamp(row["expire_time"]))
        return response

    async def CreateKey(self, request: p.CreateKeyRequest, context: Context) -> p.CreateKeyResponse:
        found = Violations()
        check_name(found, "owner_id", request.owner_id, MAX_OWNER_ID)
        found.check(_CARRIED.fullmatch(request.owner_id) is not None, "owner_id", _NOT_CARRIED)
        check_text(found, "name", request.name, _MAX_NAME)
        found.check("\0" not in request.name, "name", "holds NUL")
        seconds, nanos = request.expire_time.seconds, request.expire_time.nanos
        found.check(
            0 <= seconds <= _MAX_SECONDS and 0 <= nanos < 10**9, "expire_time", "is no time before the year 10000"
        )
        found.raise_if_any()
        key_id, secret = new_id(), PREFIX + secrets.token_urlsafe(32)
        expires = moment(request.expire_time) if request.HasField("expire_time") else None
        row = (key_id, request.owner_id, request.name, _digest(secret), expires)

        async def work(connection: asyncpg.Connection) -> None:
            await connection.execute(SQL["create_key"], *row)

        await self._database.transact(work)
        return p.CreateKeyResponse(key_id=key_id, secret=secret)

    async def RevokeKey(self, request: p.RevokeKeyRequest, context: Context) -> p.RevokeKeyResponse:
        found = Violations()
        check_name(found, "key_id", request.key_id)
        found.raise_if_any()
        known = await self._database.transact(lambda connection: connection.fetchval(SQL["revoke_key"], request.key_id))
        if known is None:
            raise NetaclawError(Reason.REASON_NOT_FOUND, "there is no such key")
        return p.RevokeKeyResponse()

    async def ListKeys(self, request: p.ListKeysRequest, context: Context) -> p.ListKeysResponse:
        found = Violations()
        found.check("\0" not in request.owner_id, "owner_id", "holds NUL")
        found.raise_if_any()
        scope = ("keys", request.owner_id, str(request.only_valid))
        cursor = read_token(request.page_token, scope, (str,))
        asked = (request.owner_id, request.only_valid, cursor[0] if cursor else "", _PAGE + 1)
        rows = await self._database.read(lambda connection: connection.fetch(SQL["list_keys"], *asked))
        response = p.ListKeysResponse(keys=map(_api_key, rows[:_PAGE]))
        if len(rows) > _PAGE:
            response.next_page_token = write_token(scope, rows[_PAGE - 1]["key_id"])
        return response

    async def CheckKeys(self, request: p.CheckKeysRequest, context: Context) -> p.CheckKeysResponse:
        found = Violations()
        found.check(len(request.key_ids) <= _MAX_CHECKED, "key_ids", f"are more than {_MAX_CHECKED}")
        found.raise_if_any()
        asked = list(request.key_ids)
        rows = await self._database.read(lambda connection: connection.fetch(SQL["check_keys"], asked))
        return p.CheckKeysResponse(valid_key_ids=[row["key_id"] for row in rows])


def _api_key(row: asyncpg.Record) -> p.ApiKey:
    key = p.ApiKey(key_id=row["key_id"], owner_id=row["owner_id"], name=row["name"])
    for field in ("create_time", "expire_time", "revoke_time"):
        if row[field] is not None:
            getattr(key, field).CopyFrom(timestamp(row[field]))
    return key


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
