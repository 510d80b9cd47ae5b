"""Agents from making to deletion, and the profile of their tools: what it says is what models are offered."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from netaclaw.agent.v1 import agent_service_pb2 as pb
from netaclaw.agent.v1.agent_pb2 import Agent, NameList, SubagentConfig
from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.tool.v1.tool_pb2 import ToolApproval, ToolProfile, ToolRoute, ToolRuntimeRoute
from netaclaw.tool.v1.tool_service_pb2 import GetToolProfileRequest
from netaclaw_chassis.errors import from_rpc
from netaclaw_client.client import Client
from tests.fakes.openai_server import FakeOpenAI, Reply, Text
from tests.scenarios.goals import Goals, Request, tasks
from tests.scenarios.suites import WORKSPACE, OpenSuite


def offered(request: Request) -> set[str]:
    """Names of the tools in a provider's request."""
    return {tool["function"]["name"] for tool in request.get("tools", [])}


def enabled(routes: list[ToolRuntimeRoute]) -> set[str]:
    return {route.tool_name for route in routes if route.route != ToolRoute.TOOL_ROUTE_DISABLED}


async def profile_of(client: Client, agent_id: str) -> ToolProfile:
    request = GetToolProfileRequest(agent_id=agent_id, workspace=WORKSPACE)
    return (await client.tools.GetToolProfile(request)).profile


@pytest.mark.parametrize("fields", [{}, {"shell_enabled": True}, {"read_only": True, "shell_enabled": True}])
async def test_the_profile_is_what_main_agent_and_subagents_are_offered(
    fields: dict[str, bool], open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    goals = model_server.rule = Goals({"look": [Reply([Text("seen")])]})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        agent = Agent(name="helper", system_prompt="Help.", **fields)  # type: ignore[arg-type]  # booleans of it
        made = (await client.agents.CreateAgent(pb.CreateAgentRequest(agent=agent))).agent
        profile = await profile_of(client, made.agent_id)
        session_id = await suite.new_session(client, agent_id=made.agent_id)
        await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=tasks("look")))
    assert enabled([item.main_route for item in profile.items]) == offered(goals.main_requests[0])
    assert enabled([item.subagent_route for item in profile.items]) == offered(goals.child_requests["look"][0])
    told = {diagnostic.tool_name: diagnostic for diagnostic in profile.diagnostics}
    for item in profile.items:
        for route in (item.main_route, item.subagent_route):
            if route.route == ToolRoute.TOOL_ROUTE_DISABLED:
                assert route.reason
                assert item.manifest.tool_name in told
    shell = next(item for item in profile.items if item.manifest.tool_name == "run_shell")
    if not fields:
        assert "shell_enabled" in told["run_shell"].fix
        assert shell.main_route.policy_sources


async def test_an_agent_is_made_edited_published_and_deleted(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        agents = client.agents
        agent = Agent(name="helper", system_prompt="Help.")
        made = (await agents.CreateAgent(pb.CreateAgentRequest(agent=agent))).agent
        assert not (await agents.ListAgentOptions(pb.ListAgentOptionsRequest())).options
        changed = Agent(agent_id=made.agent_id, read_only=True)
        update = pb.UpdateAgentRequest(agent=changed, update_mask=FieldMask(paths=["read_only"]), etag=made.etag)
        edited = (await agents.UpdateAgent(update)).agent
        assert edited.read_only
        assert edited.etag != made.etag
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await agents.UpdateAgent(update)
        assert from_rpc(caught.value).reason == Reason.REASON_STALE_ETAG
        profile = await profile_of(client, made.agent_id)
        assert "edit_file" not in enabled([item.main_route for item in profile.items])
        await agents.PublishAgent(pb.PublishAgentRequest(agent_id=made.agent_id, published=True))
        [option] = (await agents.ListAgentOptions(pb.ListAgentOptionsRequest())).options
        assert (option.agent_id, option.name) == (made.agent_id, "helper")
        await agents.DeleteAgent(pb.DeleteAgentRequest(agent_id=made.agent_id))
        assert not (await agents.ListAgentOptions(pb.ListAgentOptionsRequest())).options
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await profile_of(client, made.agent_id)
        assert from_rpc(caught.value).reason == Reason.REASON_AGENT_NOT_FOUND


async def test_the_profile_says_which_settings_do_nothing_and_what_the_model_lacks(open_suite: OpenSuite) -> None:
    async with open_suite("in_process") as suite, suite.client() as client:
        wrong = Agent(
            name="wrong",
            model="no-such-model",
            tool_names=NameList(names=["read_file", "red_file"]),
            approvals={"write_fil": ToolApproval.TOOL_APPROVAL_DENY},
            subagent_config=SubagentConfig(allowed_tool_names=NameList(names=["run_shel"])),
        )
        small = Agent(name="small", model="local")
        profiles = []
        for agent in (wrong, small):
            made = (await client.agents.CreateAgent(pb.CreateAgentRequest(agent=agent))).agent
            profiles.append(await profile_of(client, made.agent_id))
    of_wrong, of_small = profiles
    assert [(each.tool_name, each.fix) for each in of_wrong.diagnostics[:4]] == [
        ("", "change agent.model"),
        ("red_file", "change agent.tool_names"),
        ("run_shel", "change agent.subagent_config.allowed_tool_names"),
        ("write_fil", "change agent.approvals"),
    ]
    assert "no-such-model" in of_wrong.diagnostics[0].message
    assert of_small.diagnostics[0].message == "The model local is offered no tools."
    by_design = next(each for each in of_small.diagnostics if each.tool_name == "clarify")
    assert "not in subagents" in by_design.message
    assert by_design.fix == ""
