"""Other instances find an owner at the address that it was told to advertise."""

from __future__ import annotations

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.store.v1.journal_service_pb2 import GetOwnerRequest
from netaclaw.store.v1.journal_service_pb2_grpc import JournalServiceStub
from netaclaw_chassis.calls import OWNER_KEY
from netaclaw_chassis.channel import connect
from tests.scenarios.suites import OWNER, SERVICE_TOKEN, OpenSuite

ADVERTISED = "orchestrator-1.internal:7404"


async def test_an_owner_is_known_by_its_advertised_address(open_suite: OpenSuite) -> None:
    async with (
        open_suite("in_process", NETACLAW_ORCHESTRATOR_ADVERTISED_ADDRESS=ADVERTISED) as suite,
        suite.client() as client,
        connect(suite.store_internal, SERVICE_TOKEN) as channel,
    ):
        session_id = await suite.new_session(client)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content="count files"))
        request = GetOwnerRequest(owner_id=OWNER, session_id=session_id)
        found = await JournalServiceStub(channel).GetOwner(request, metadata=((OWNER_KEY, OWNER),))
        assert found.address == ADVERTISED
