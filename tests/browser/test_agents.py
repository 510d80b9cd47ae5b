"""Agents and tools: forms that lose nothing, and one projection of tools on every page."""

from __future__ import annotations

from typing import Any

import grpc
from playwright.sync_api import BrowserContext, Page, expect

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest, GetAgentRequest
from netaclaw.agent.v1.agent_service_pb2_grpc import AgentServiceStub
from netaclaw.model.v1.model_service_pb2 import ListModelsRequest
from netaclaw.model.v1.model_service_pb2_grpc import ModelServiceStub
from netaclaw.tool.v1.tool_pb2 import ToolApproval, ToolRoute
from netaclaw.tool.v1.tool_service_pb2 import GetToolProfileRequest
from netaclaw.tool.v1.tool_service_pb2_grpc import ToolServiceStub
from tests.browser.page_suite import WINDOW, PageSuite, settled

ROUTES = {
    ToolRoute.TOOL_ROUTE_WORKER_LOCAL: "in the worker",
    ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY: "by the main process",
    ToolRoute.TOOL_ROUTE_DISABLED: "disabled",
}


def made(suite: PageSuite, **fields: Any) -> str:
    with grpc.insecure_channel(suite.grpc_address) as channel:
        return str(AgentServiceStub(channel).CreateAgent(CreateAgentRequest(agent=Agent(**fields))).agent.agent_id)


def agent(suite: PageSuite, agent_id: str) -> Agent:
    with grpc.insecure_channel(suite.grpc_address) as channel:
        found: Agent = AgentServiceStub(channel).GetAgent(GetAgentRequest(agent_id=agent_id)).agent
        return found


def profile(suite: PageSuite, agent_id: str) -> list[list[str]]:
    """Per tool: its name, where it runs for the main agent and for subagents, and why."""
    with grpc.insecure_channel(suite.grpc_address) as channel:
        found = ToolServiceStub(channel).GetToolProfile(GetToolProfileRequest(agent_id=agent_id)).profile
    return [
        [
            item.manifest.tool_name,
            *(text for route in (item.main_route, item.subagent_route) for text in (ROUTES[route.route], route.reason)),
        ]
        for item in found.items
    ]


def table(tab: Page) -> list[list[str]]:
    """The same of the page."""
    expect(tab.locator("[data-tool]").first).to_be_visible()
    found: list[list[str]] = tab.locator("[data-tool]").evaluate_all(
        """(items) => items.map((item) => [
            item.dataset.tool,
            ...[...item.querySelectorAll('dd > *')].map((text) => text.textContent.trim()),
        ])"""
    )
    return found


def test_an_agent_is_made_changed_and_published(tab: Page, suite: PageSuite) -> None:
    tab.goto(f"{suite.url}/agents/new")
    tab.get_by_label("Name", exact=True).fill("Bookkeeper")
    tab.get_by_role("button", name="Save").click()
    card = tab.locator("[data-agent]", has_text="Bookkeeper")
    expect(card).to_contain_text("not published")
    tab.get_by_label("Write nothing").check()
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("[data-tool=write_file] .badge").first).to_have_text("disabled")
    tab.get_by_role("button", name="Publish").click()
    expect(card).not_to_contain_text("not published")
    tab.reload()
    expect(tab.get_by_label("Write nothing")).to_be_checked()
    assert agent(suite, tab.url.rsplit("/", 1)[1]).published


def test_the_model_is_picked_from_the_catalogue_and_one_that_is_gone_stays_with_a_mark(
    tab: Page, suite: PageSuite
) -> None:
    with grpc.insecure_channel(suite.grpc_address) as channel:
        offered = ModelServiceStub(channel).ListModels(ListModelsRequest()).models
    agent_id = made(suite, name="Old hand", model="gone")
    tab.goto(f"{suite.url}/agents/{agent_id}")
    picker = tab.get_by_role("combobox", name="Model", exact=True)
    state = tab.locator("[data-model-state]")
    expect(state).to_have_attribute("data-model-state", "unknown")
    expect(picker).to_have_value("gone")
    expect(state.locator("[data-mark]")).to_contain_text("“gone” is not in the operator's catalogue")
    told = picker.evaluate("(field) => document.getElementById(field.getAttribute('aria-describedby')).innerText")
    assert "not in the operator's catalogue" in told
    values = picker.locator("option").evaluate_all("(options) => options.map(({ value }) => value)")
    assert values == ["", "gone", *(model.name for model in offered)]
    expect(tab.get_by_role("button", name="Save")).to_be_disabled()
    picker.select_option("local")
    expect(state).to_have_attribute("data-model-state", "notInstalled")
    expect(picker.locator("option:checked")).to_have_text("local (not installed)")
    picker.focus()
    tab.keyboard.type("scripted")
    expect(picker).to_have_value("scripted")
    expect(state).to_have_attribute("data-model-state", "ready")
    expect(state).to_contain_text("takes tools")
    expect(picker.locator("option[value=gone]")).to_have_text("gone (not in the catalogue)")
    tab.get_by_role("button", name="Save").click()
    expect(tab.get_by_role("status")).to_have_text("Saved")
    assert agent(suite, agent_id).model == "scripted"
    expect(picker.locator("option[value=gone]")).to_have_count(0)
    picker.select_option(label="the suite's default (openai)")
    expect(state).to_contain_text(f"{WINDOW // 1000}K tokens of context")
    tab.get_by_role("button", name="Save").click()
    expect(tab.get_by_role("button", name="Save")).to_be_disabled()
    assert agent(suite, agent_id).model == ""


def test_what_somebody_else_changed_meanwhile_is_kept_and_so_is_what_was_typed(
    context: BrowserContext, suite: PageSuite
) -> None:
    agent_id = made(suite, name="Shared", description="first")
    first, second = context.new_page(), context.new_page()
    for tab in (first, second):
        tab.goto(f"{suite.url}/agents/{agent_id}")
        expect(tab.get_by_label("Name", exact=True)).to_have_value("Shared")
    first.get_by_label("Description").fill("by the first")
    first.get_by_role("button", name="Save").click()
    expect(first.get_by_role("status")).to_have_text("Saved")
    second.get_by_label("System prompt").fill("by the second")
    second.get_by_role("button", name="Save").click()
    expect(second.locator("[data-notice=STALE_ETAG]")).to_be_visible()
    expect(second.get_by_label("Description")).to_have_value("by the first")
    expect(second.get_by_label("System prompt")).to_have_value("by the second")
    second.get_by_role("button", name="Save").click()
    expect(second.get_by_role("status")).to_have_text("Saved")
    found = agent(suite, agent_id)
    assert (found.description, found.system_prompt) == ("by the first", "by the second")


def test_tools_page_and_agent_page_show_the_one_projection(tab: Page, suite: PageSuite) -> None:
    approvals = {"write_file": ToolApproval.TOOL_APPROVAL_ASK, "edit_file": ToolApproval.TOOL_APPROVAL_DENY}
    agents: dict[str, Any] = {"Careful": {"approvals": approvals}, "Bold": {"shell_enabled": True}}
    for name, fields in agents.items():
        agent_id = made(suite, name=name, **fields)
        told = profile(suite, agent_id)
        tab.goto(f"{suite.url}/agents/{agent_id}")
        assert table(tab) == told
        tab.goto(f"{suite.url}/tools")
        tab.get_by_role("combobox", name="Agent").select_option(name)
        expect(tab.locator("[data-profile]")).to_have_attribute("data-profile", agent_id)
        assert table(tab) == told


def test_an_agent_is_tried_beside_its_form(tab: Page, suite: PageSuite) -> None:
    agent_id = made(suite, name="Tried", system_prompt="Be brief.")
    tab.goto(f"{suite.url}/agents/{agent_id}")
    tab.get_by_role("button", name="Try it").click()
    expect(tab.get_by_label("Message", exact=True)).to_be_visible()
    tab.get_by_label("Message", exact=True).fill("hello")
    tab.keyboard.press("Enter")
    expect(tab.locator("[data-tryout] [data-role=assistant]")).to_be_visible()
    tab.get_by_label("Description").fill("another")
    expect(tab.locator("[data-tryout]")).to_contain_text("Save to try what was changed.")
    settled(tab)
    tab.get_by_role("link", name="Open as a session").click()
    tab.wait_for_url("**/s/*")
    assert suite.tree(tab.url.rsplit("/", 1)[1]).session.agent_id == agent_id


def test_approvals_and_tools_are_chosen_beside_their_routes(tab: Page, suite: PageSuite) -> None:
    agent_id = made(suite, name="Chooser", shell_enabled=True)
    tab.goto(f"{suite.url}/agents/{agent_id}")
    tab.locator("[data-tool=run_shell] [data-approval]").select_option(label="ask a person")
    tab.get_by_label("Every tool that this allows").uncheck()
    tab.locator("[data-tool=run_shell]").get_by_label("Agent may use").check()
    tab.get_by_label("Every tool that the agent has itself").uncheck()
    tab.get_by_role("button", name="Save").click()
    expect(tab.locator("[data-tool=read_file] .badge").first).to_have_text("disabled")
    expect(tab.locator("[data-tool=run_shell] .badge").last).to_have_text("disabled")
    expect(tab.locator("[data-tool=run_shell] .badge").first).not_to_have_text("disabled")
    stored = agent(suite, agent_id)
    assert list(stored.tool_names.names) == ["run_shell"]
    assert stored.subagent_config.HasField("allowed_tool_names")
    assert dict(stored.approvals) == {"run_shell": ToolApproval.TOOL_APPROVAL_ASK}
    tab.reload()
    expect(tab.locator("[data-tool=run_shell] [data-approval]")).to_have_value("2")


def test_an_agent_is_deleted_once_a_person_has_said_so_twice(tab: Page, suite: PageSuite) -> None:
    agent_id = made(suite, name="Short-lived")
    tab.goto(f"{suite.url}/agents/{agent_id}")
    tab.get_by_role("button", name="Delete").click()
    expect(tab.get_by_role("alertdialog")).to_contain_text("“Short-lived” will be gone for good.")
    tab.get_by_role("alertdialog").get_by_role("button", name="Cancel").click()
    assert agent(suite, agent_id).name == "Short-lived"
    tab.get_by_role("button", name="Delete").click()
    tab.get_by_role("alertdialog").get_by_role("button", name="Delete").click()
    expect(tab).to_have_url(f"{suite.url}/agents")
    expect(tab.get_by_role("link", name="Short-lived")).to_have_count(0)
