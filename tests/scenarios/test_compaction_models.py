"""Which model sums up: that of the agent that goes on."""

from __future__ import annotations

from netaclaw.agent.v1.agent_service_pb2 import DeleteAgentRequest
from netaclaw.chat.v1.chat_service_pb2 import CompactRequest
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1.session_service_pb2 import GetSessionRequest
from tests.fakes.openai_server import FakeOpenAI
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_compaction import LONG, Provider, refused, say, talking
from tests.scenarios.test_models import use_model
from tests.scenarios.test_tools_shell import session_of


async def test_the_default_agents_own_model_sums_up(open_suite: OpenSuite, model_server: FakeOpenAI) -> None:
    async with talking(open_suite, model_server, Provider()) as (_, client, session_id):
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        await use_model(client, "no-such-model")
        assert await refused(client.chat.Compact(CompactRequest(session_id=session_id))) == Reason.REASON_MODEL_UNKNOWN


async def test_a_session_whose_agent_was_deleted_is_summed_up_by_the_default_model(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    async with talking(open_suite, model_server, Provider()) as (suite, client, _):
        session_id = await session_of(suite, client)
        for n in range(3):
            await say(client, session_id, f"message {n} {LONG}")
        session = (await client.sessions.GetSession(GetSessionRequest(session_id=session_id))).session
        await client.agents.DeleteAgent(DeleteAgentRequest(agent_id=session.agent_id))
        entry = (await client.chat.Compact(CompactRequest(session_id=session_id))).entry
    assert entry.compaction.summary.startswith("summary 1")
