"""Who calls: what is asked of the store, what is remembered, what is refused."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest
from grpc.aio import Metadata

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.identity_service_pb2 import VerifyKeyRequest, VerifyKeyResponse
from netaclaw_chassis.errors import STATUS_DETAILS_KEY, NetaclawError
from netaclaw_gateway.identity import REMEMBERED_S, Caller, Gate
from netaclaw_gateway.limits import RequestLimit

SECRET = "ncl_" + "a" * 43


class Store:
    """Verifies one secret, or fails."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails: NetaclawError | grpc.StatusCode | None = None
        self.expires = 0.0

    async def VerifyKey(self, request: VerifyKeyRequest, **options: Any) -> VerifyKeyResponse:
        self.asked += 1
        if isinstance(self.fails, grpc.StatusCode):
            raise grpc.aio.AioRpcError(self.fails, Metadata(), Metadata(), "down")
        if self.fails is not None or request.secret != SECRET:
            error = self.fails or NetaclawError(Reason.REASON_UNAUTHENTICATED, "unknown")
            details = Metadata((STATUS_DETAILS_KEY, error.details()))
            raise grpc.aio.AioRpcError(error.code, Metadata(), details, str(error))
        response = VerifyKeyResponse(owner_id="ann", key_id="k")
        if self.expires:
            response.expire_time.FromNanoseconds(int(self.expires * 1e9))
        return response


class Rig:
    def __init__(self, *, keys_required: bool = True) -> None:
        self.store, self.now = Store(), 0.0
        unlimited = RequestLimit("requests", 0)
        self.gate = Gate(
            self.store,  # type: ignore[arg-type]  # as much of the stub as is used
            keys_required=keys_required,
            per_address=unlimited,
            per_owner=unlimited,
            clock=lambda: self.now,
        )

    async def refusal(self, authorization: str) -> Reason:
        with pytest.raises(NetaclawError) as caught:
            await self.gate.admit(authorization, "10.0.0.1")
        return caught.value.reason


async def test_a_key_is_verified_once_and_then_remembered_for_a_while() -> None:
    rig = Rig()
    for _ in range(3):
        assert await rig.gate.admit(f"Bearer {SECRET}", "10.0.0.1") == Caller("ann", "k", "10.0.0.1")
    assert rig.store.asked == 1
    rig.now = REMEMBERED_S + 0.1
    rig.store.fails = NetaclawError(Reason.REASON_UNAUTHENTICATED, "revoked")
    assert await rig.refusal(f"Bearer {SECRET}") is Reason.REASON_UNAUTHENTICATED


async def test_a_key_is_not_remembered_beyond_its_end() -> None:
    rig = Rig()
    rig.store.expires = time.time() + 2
    await rig.gate.admit(f"Bearer {SECRET}", "")
    rig.now = 3.0
    rig.store.fails = NetaclawError(Reason.REASON_UNAUTHENTICATED, "expired")
    assert await rig.refusal(f"Bearer {SECRET}") is Reason.REASON_UNAUTHENTICATED


async def test_a_refused_key_does_not_ask_the_store_each_time() -> None:
    rig = Rig()
    for _ in range(3):
        assert await rig.refusal("Bearer wrong") is Reason.REASON_UNAUTHENTICATED
    assert rig.store.asked == 1


@pytest.mark.parametrize("shown", ["Basic abc", SECRET, "Bearer" + SECRET, "Bearer " + "x" * 600])
async def test_what_is_no_bearer_key_is_refused_without_asking(shown: str) -> None:
    rig = Rig(keys_required=False)
    assert await rig.refusal(shown) is Reason.REASON_UNAUTHENTICATED
    assert rig.store.asked == 0


async def test_without_a_credential_the_caller_is_the_local_owner_only_where_keys_are_not_required() -> None:
    assert (await Rig(keys_required=False).gate.admit("", "127.0.0.1")).owner_id == "local"
    assert await Rig().refusal("") is Reason.REASON_UNAUTHENTICATED


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN]
)
async def test_nobody_enters_while_the_store_cannot_be_asked(code: grpc.StatusCode) -> None:
    rig = Rig()
    rig.store.fails = code
    assert await rig.refusal(f"Bearer {SECRET}") is Reason.REASON_SERVICE_UNAVAILABLE
    rig.store.fails = None
    assert (await rig.gate.admit(f"Bearer {SECRET}", "")).owner_id == "ann"


async def test_a_store_that_does_not_believe_the_gateway_is_no_verdict_on_the_key() -> None:
    rig = Rig()
    rig.store.fails = grpc.StatusCode.UNAUTHENTICATED
    assert await rig.refusal(f"Bearer {SECRET}") is Reason.REASON_SERVICE_UNAVAILABLE
