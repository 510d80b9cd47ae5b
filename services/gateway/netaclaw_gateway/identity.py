"""Who calls: the local owner on loopback, or the owner of an API key. One module for every way in."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import grpc

from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1.identity_service_pb2 import ListKeysRequest, VerifyKeyRequest
from netaclaw_chassis import calls
from netaclaw_chassis.errors import NetaclawError, from_rpc
from netaclaw_gateway.limits import RequestLimit

if TYPE_CHECKING:  # a name of the type stubs only
    from netaclaw.store.v1.identity_service_pb2_grpc import IdentityServiceAsyncStub

LOCAL_OWNER = "local"
"""Who calls over loopback without a credential."""

REMEMBERED_S = 15.0
"""How long an answer of the store is trusted; a revoked key opens nothing after that."""
_MAX_REMEMBERED = 4096
_MAX_SECRET = 512
_VERIFY_WITHIN_S = 5.0
_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a call is made for."""

    owner_id: str
    key_id: str = ""
    """The key that was shown; empty for the local owner."""
    address: str = ""
    """Where the call came from, without a port."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Identity as services read it."""
        pairs = (
            (calls.OWNER_KEY, self.owner_id),
            (calls.KEY_KEY, self.key_id),
            (calls.ADDRESS_KEY, self.address),
        )
        return tuple(pair for pair in pairs if pair[1])


@dataclass(frozen=True, slots=True)
class _Known:
    caller: Caller | None
    until: float


class Gate:
    """Finds the caller of a request by its credential.

    A credential that is shown is always verified, at the store, and its answer remembered for REMEMBERED_S. Without
    one the caller is the local owner, unless keys are required.
    """

    def __init__(
        self,
        identity: IdentityServiceAsyncStub,
        *,
        keys_required: bool,
        per_address: RequestLimit,
        per_owner: RequestLimit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._keys_required = keys_required
        self._per_address = per_address
        self._per_owner = per_owner
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    async def admit(self, authorization: str, address: str) -> Caller:
        """The caller behind an authorization header's value, and an address. Raises UNAUTHENTICATED; LIMIT_REACHED;
        SERVICE_UNAVAILABLE when the store does not answer, so that nobody enters unseen."""
        self._per_address.take(address)
        caller = await self._caller(authorization)
        self._per_owner.take(caller.owner_id)
        return replace(caller, address=address)

    async def _caller(self, authorization: str) -> Caller:
        if not authorization:
            if self._keys_required:
                raise _refusal("a credential is required: authorization: Bearer <API key>")
            return Caller(LOCAL_OWNER)
        if not authorization.lower().startswith(_SCHEME) or len(authorization) > _MAX_SECRET:
            raise _refusal("the credential is not of the form: Bearer <API key>")
        secret = authorization[len(_SCHEME) :].strip()
        digest = hashlib.sha256(secret.encode()).digest()
        known = self._known.get(digest)
        if known is None or known.until <= self._clock():
            known = self._remember(digest, await self._verified(secret))
        if known.caller is None:
            raise _refusal("the key is unknown, expired or revoked")
        return known.caller

    async def has_keys(self) -> bool:
        """Whether any key is in force. Raises SERVICE_UNAVAILABLE."""
        try:
            answer = await self._identity.ListKeys(
                ListKeysRequest(only_valid=True), metadata=calls.outgoing(), timeout=_VERIFY_WITHIN_S
            )
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error) from None
        return bool(answer.keys)

    async def _verified(self, secret: str) -> tuple[Caller | None, float]:
        """The caller, and for how many seconds that is so."""
        try:
            answer = await self._identity.VerifyKey(
                VerifyKeyRequest(secret=secret), metadata=calls.outgoing(), timeout=_VERIFY_WITHIN_S
            )
        except grpc.aio.AioRpcError as error:
            domain = from_rpc(error)
            if domain.reason == Reason.REASON_UNAUTHENTICATED and error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return None, REMEMBERED_S
            raise NetaclawError(
                Reason.REASON_SERVICE_UNAVAILABLE, "keys cannot be verified now; try again", retry_after=1.0
            ) from None
        left = REMEMBERED_S
        if answer.HasField("expire_time"):
            left = min(left, answer.expire_time.ToNanoseconds() / 1e9 - time.time())
        return Caller(answer.owner_id, answer.key_id), left

    def _remember(self, digest: bytes, verified: tuple[Caller | None, float]) -> _Known:
        caller, seconds = verified
        known = self._known[digest] = _Known(caller, self._clock() + seconds)
        self._known.move_to_end(digest)
        if len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)
        return known


def _refusal(words: str) -> NetaclawError:
    return NetaclawError(Reason.REASON_UNAUTHENTICATED, words)
