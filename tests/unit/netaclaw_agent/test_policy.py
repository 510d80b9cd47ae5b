"""Which tools a scene has, and that what is shown is what runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netaclaw.agent.v1.agent_pb2 import Agent, NameList, SubagentConfig
from netaclaw.session.v1.entry_pb2 import ToolCallPart, ToolCallState, ToolResult
from netaclaw.tool.v1.tool_pb2 import (
    SandboxMode,
    ToolApproval,
    ToolManifest,
    ToolPolicy,
    ToolRoute,
    ToolRuntimeRoute,
)
from netaclaw_agent.loop import drive
from netaclaw_agent.policy import Scene, child_policy, main_policy, resolve, run_call
from netaclaw_agent.subagent_config import MAX_CONCURRENT, SubagentSettings, effective_subagent_config
from netaclaw_agent.tool import Handler, ToolBox
from netaclaw_agent.tools.catalogue import KNOWN_TOOLS

SETTINGS = SubagentSettings()
DELEGATES = ["delegate_parallel", "delegate_task", "read_result"]
FILES = ["edit_file", "list_files", "read_file", "search_files", "write_file"]
READS = FILES[1:-1]
SHELL = ["edit_file", "list_files", "read_file", "run_shell", "search_files", "write_file"]
MAIN_ONLY = ["clarify", "todo_write"]
MAIN = sorted([*DELEGATES, *MAIN_ONLY])
"""What no subagent has."""
LATER_TOOLS = (
    ToolManifest(tool_name="memory_save", needs_local_storage=True, family="memory"),
    ToolManifest(tool_name="run_command", needs_shell=True, family="process"),
)
ALL = (*KNOWN_TOOLS, *LATER_TOOLS)
STRICTNESS = [
    SandboxMode.SANDBOX_MODE_OFF,
    SandboxMode.SANDBOX_MODE_BEST_EFFORT,
    SandboxMode.SANDBOX_MODE_REQUIRED,
]


async def works(call: ToolCallPart) -> ToolResult:
    return ToolResult(content=f"ran {call.tool_name}")


def bind_all(manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler:
    return works


def names(*given: str) -> NameList:
    return NameList(names=given)


def main(agent: Agent, scene: Scene = Scene.SUPERVISOR, known: Sequence[ToolManifest] = KNOWN_TOOLS) -> ToolPolicy:
    return main_policy(agent, scene=scene, workspace="home", settings=SETTINGS, known=known)


def child(
    parent: Agent, preset: Agent | None = None, requested: Sequence[str] | None = None, policy: ToolPolicy | None = None
) -> ToolPolicy:
    return child_policy(
        policy or main(parent),
        preset or parent,
        config=effective_subagent_config(parent, SETTINGS),
        requested=requested,
        settings=SETTINGS,
    )


def route_of(policy: ToolPolicy, name: str) -> ToolRuntimeRoute:
    (route,) = (route for route in policy.routes if route.tool_name == name)
    return route


def enabled(policy: ToolPolicy) -> list[str]:
    return [route.tool_name for route in policy.routes if route.route != ToolRoute.TOOL_ROUTE_DISABLED]


def run(box: ToolBox, name: str, arguments: str = "{}") -> ToolCallPart:
    return drive(run_call(box, ToolCallPart(call_id="c1", tool_name=name, arguments_json=arguments)))


@pytest.mark.parametrize(
    ("scene", "agent", "tools"),
    [
        (Scene.SUPERVISOR, Agent(), sorted([*MAIN, *FILES])),
        (Scene.SUPERVISOR, Agent(subagent_config=SubagentConfig(enabled=False)), sorted([*FILES, *MAIN_ONLY])),
        (Scene.SUPERVISOR, Agent(tool_names=names("read_file", "delegate_task")), ["delegate_task", "read_file"]),
        (Scene.SUPERVISOR, Agent(tool_names=names()), []),
        (Scene.SUPERVISOR, Agent(read_only=True), sorted([*MAIN, *READS])),
        (Scene.SUPERVISOR, Agent(workspace_enabled=False), MAIN),
        (Scene.SUPERVISOR, Agent(shell_enabled=True), sorted([*MAIN, *SHELL])),
        (Scene.SUBAGENT, Agent(), FILES),
        (Scene.SUBAGENT, Agent(shell_enabled=True), SHELL),
        (Scene.CREW_MASTER, Agent(), FILES),
        (Scene.CREW_MASTER, Agent(subagent_config=SubagentConfig(enabled=True)), FILES),
        (Scene.CREW_MEMBER, Agent(), FILES),
    ],
)
def test_in_every_scene_the_schemas_are_the_handlers(scene: Scene, agent: Agent, tools: list[str]) -> None:
    policy = main(agent, scene)
    bound: list[str] = []

    def bind(manifest: ToolManifest, route: ToolRuntimeRoute) -> Handler:
        assert route.tool_name == manifest.tool_name
        bound.append(manifest.tool_name)
        return works

    box = resolve(policy, bind)
    assert [manifest.tool_name for manifest in box.manifests] == bound == enabled(policy) == tools
    assert sorted([*box.tools, *box.refused]) == sorted(tool.tool_name for tool in KNOWN_TOOLS)
    for name in box.refused:
        assert run(box, name).state == ToolCallState.TOOL_CALL_STATE_REFUSED
    for name in tools:
        assert run(box, name).state == ToolCallState.TOOL_CALL_STATE_COMPLETED


def test_a_subagent_reads_in_its_own_process_and_writes_on_the_main_side() -> None:
    policy = child(Agent())
    assert enabled(policy) == FILES
    local = {route.tool_name for route in policy.routes if route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL}
    assert local == set(READS)
    for name in ("edit_file", "write_file"):
        assert route_of(policy, name).route == ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY


def test_a_subagent_runs_commands_in_its_own_process_where_parent_and_child_allow_it() -> None:
    allowed = Agent(shell_enabled=True)
    assert route_of(child(allowed), "run_shell").route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL
    assert "run_shell" not in enabled(child(allowed, Agent()))
    assert "run_shell" not in enabled(child(Agent(), allowed))


def test_a_read_only_agent_runs_commands_only_where_a_sandbox_is_certain() -> None:
    agent = Agent(shell_enabled=True, read_only=True)
    refused = route_of(main(agent), "run_shell")
    assert list(refused.policy_sources) == ["agent.read_only", "agent.sandbox"]
    agent.sandbox = SandboxMode.SANDBOX_MODE_REQUIRED
    assert enabled(main(agent)) == sorted([*MAIN, *READS, "run_shell"])


def test_the_main_agent_runs_nothing_in_a_worker_of_its_own() -> None:
    routes = {route.route for route in main(Agent(shell_enabled=True)).routes}
    assert routes == {ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY}


@pytest.mark.parametrize(
    ("agent", "scene", "tool", "sources"),
    [
        (Agent(read_only=True), Scene.SUPERVISOR, "write_file", ["agent.read_only"]),
        (Agent(tool_names=names()), Scene.SUPERVISOR, "read_file", ["agent.tool_names"]),
        (Agent(), Scene.CREW_MASTER, "delegate_task", ["scene"]),
        (
            Agent(subagent_config=SubagentConfig(enabled=False)),
            Scene.SUPERVISOR,
            "delegate_task",
            ["agent.subagent_config.enabled"],
        ),
        (
            Agent(tool_names=names(), workspace_enabled=False, read_only=True),
            Scene.SUPERVISOR,
            "write_file",
            ["agent.tool_names", "agent.read_only", "agent.workspace_enabled", "session.workspace"],
        ),
        (
            Agent(approvals={"write_file": ToolApproval.TOOL_APPROVAL_DENY}),
            Scene.SUPERVISOR,
            "write_file",
            ["agent.approvals"],
        ),
    ],
)
def test_a_refusal_names_its_reason_and_all_that_decided(
    agent: Agent, scene: Scene, tool: str, sources: list[str]
) -> None:
    route = route_of(main(agent, scene), tool)
    assert route.route == ToolRoute.TOOL_ROUTE_DISABLED
    assert list(route.policy_sources) == sources
    assert route.reason.endswith(".")


def test_the_operator_can_switch_delegation_off_and_an_agent_can_switch_it_on_again() -> None:
    off = SubagentSettings(enabled=False)
    policy = main_policy(Agent(), scene=Scene.SUPERVISOR, workspace="home", settings=off)
    assert list(route_of(policy, "delegate_task").policy_sources) == ["settings.subagent.enabled"]
    on = Agent(subagent_config=SubagentConfig(enabled=True))
    assert set(DELEGATES) <= set(enabled(main_policy(on, scene=Scene.SUPERVISOR, workspace="home", settings=off)))


def test_without_a_workspace_there_are_no_file_tools_anywhere() -> None:
    policy = main_policy(Agent(), scene=Scene.SUPERVISOR, workspace="", settings=SETTINGS)
    assert enabled(policy) == MAIN
    assert enabled(child(Agent(), policy=policy)) == []


ASK = ToolApproval.TOOL_APPROVAL_ASK


def test_a_tool_that_needs_approval_says_so_in_its_route() -> None:
    route = route_of(main(Agent(approvals={"write_file": ASK})), "write_file")
    assert (route.route, route.approval) == (ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY, ASK)
    assert list(route.policy_sources) == ["agent.approvals", "agent"]
    assert route.reason == "Runs on the main side. A person must agree to each call."


@pytest.mark.parametrize("tool", ["write_file", "read_file", "run_shell"])
@pytest.mark.parametrize("asking", ["parent", "child"])
def test_a_childs_tool_that_needs_approval_waits_on_the_main_side(tool: str, asking: str) -> None:
    free, asks = Agent(shell_enabled=True), Agent(shell_enabled=True, approvals={tool: ASK})
    policy = child(asks, free) if asking == "parent" else child(free, asks)
    route = route_of(policy, tool)
    assert (route.route, route.approval) == (ToolRoute.TOOL_ROUTE_MAIN_PROCESS_PROXY, ASK)
    assert route.policy_sources[0] == ("parent" if asking == "parent" else "child.approvals")


def test_a_child_under_stricter_rules_runs_no_commands_under_its_parents() -> None:
    parent = Agent(shell_enabled=True, approvals={"run_shell": ASK})
    strict = Agent(shell_enabled=True, sandbox=SandboxMode.SANDBOX_MODE_REQUIRED)
    route = route_of(child(parent, strict), "run_shell")
    assert route.route == ToolRoute.TOOL_ROUTE_DISABLED
    assert list(route.policy_sources) == ["parent", "child.read_only", "child.sandbox"]


def test_a_worker_runs_nothing_that_needs_approval_whatever_its_envelope_says() -> None:
    policy = child(Agent())
    route = next(route for route in policy.routes if route.tool_name == "read_file")
    assert route.route == ToolRoute.TOOL_ROUTE_WORKER_LOCAL
    route.approval = ASK
    box = resolve(policy, bind_all)
    assert "read_file" not in box.tools
    assert box.refused["read_file"].reason == "It needs a person's approval, which cannot be asked for here."


def test_a_childs_tools_are_the_intersection_of_all_who_have_a_say() -> None:
    parent = Agent(
        tool_names=names("read_file", "list_files", "search_files", "delegate_task"),
        subagent_config=SubagentConfig(allowed_tool_names=names("read_file", "list_files", "write_file")),
    )
    preset = Agent(tool_names=names("list_files", "read_file", "search_files"))
    assert enabled(child(parent, preset)) == ["list_files", "read_file"]
    policy = child(parent, preset, ["read_file", "write_file", "no_such_tool"])
    assert enabled(policy) == ["read_file"]
    assert list(route_of(policy, "list_files").policy_sources) == ["task.tool_names"]
    assert "agent.subagent_config.allowed_tool_names" in route_of(policy, "search_files").policy_sources
    assert "parent" in route_of(policy, "write_file").policy_sources
    assert route_of(policy, "no_such_tool").reason == "There is no tool of this name."


def test_an_empty_list_means_none_and_an_absent_one_inherits() -> None:
    assert enabled(child(Agent(), requested=[])) == []
    assert enabled(child(Agent(), Agent(tool_names=names()))) == []
    assert enabled(child(Agent(subagent_config=SubagentConfig(allowed_tool_names=names())))) == []
    assert enabled(child(Agent(), requested=None)) == FILES


def test_a_subagent_never_delegates_whatever_the_settings_say() -> None:
    config = effective_subagent_config(Agent(), SETTINGS)
    nothing_blocked = SubagentSettings(blocked_tool_names=())
    policy = child_policy(main(Agent()), Agent(), config=config, requested=MAIN, settings=nothing_blocked)
    assert enabled(policy) == []


@pytest.mark.parametrize(("parent", "preset"), [(True, False), (False, True)])
def test_read_only_of_parent_or_child_stops_writing(parent: bool, preset: bool) -> None:
    policy = child(Agent(read_only=parent), Agent(read_only=preset))
    assert policy.read_only
    assert "write_file" not in enabled(policy)


agents = st.builds(
    Agent,
    tool_names=st.none() | st.builds(NameList, names=st.sets(st.sampled_from([tool.tool_name for tool in ALL]))),
    workspace_enabled=st.sampled_from([None, False, True]),
    shell_enabled=st.sampled_from([None, False, True]),
    read_only=st.sampled_from([None, False, True]),
    local_storage_enabled=st.sampled_from([None, False, True]),
    sandbox=st.sampled_from(list(SandboxMode.values())),
    approvals=st.dictionaries(
        st.sampled_from([tool.tool_name for tool in ALL]), st.sampled_from(list(ToolApproval.values()))
    ),
    subagent_config=st.builds(
        SubagentConfig,
        enabled=st.sampled_from([None, False, True]),
        allowed_tool_names=st.none() | st.builds(NameList, names=st.sets(st.sampled_from([t.tool_name for t in ALL]))),
    ),
)


tool_names = st.sampled_from([tool.tool_name for tool in ALL])


@given(
    parent=agents,
    preset=agents,
    requested=st.none() | st.lists(tool_names),
    workspace=st.sampled_from(["", "home"]),
    scene=st.sampled_from(list(Scene)),
    blocked=st.sets(tool_names),
)
def test_a_child_is_never_wider_than_its_parent(
    *, parent: Agent, preset: Agent, requested: list[str] | None, workspace: str, scene: Scene, blocked: set[str]
) -> None:
    settings = SubagentSettings(blocked_tool_names=tuple(blocked))
    above = main_policy(parent, scene=scene, workspace=workspace, settings=settings, known=ALL)
    config = effective_subagent_config(parent, settings)
    below = child_policy(above, preset, config=config, requested=requested, settings=settings, known=ALL)
    assert set(enabled(below)) <= set(enabled(above)) - set(MAIN) - blocked
    assert below.workspace in ("", above.workspace)
    assert below.read_only >= above.read_only
    assert below.shell <= above.shell
    assert below.local_storage <= above.local_storage
    assert STRICTNESS.index(below.sandbox) >= STRICTNESS.index(above.sandbox)
    if preset.sandbox:
        assert STRICTNESS.index(below.sandbox) >= STRICTNESS.index(preset.sandbox)
    box = resolve(below, bind_all, ALL)
    assert list(box.tools) == enabled(below)
    for route in below.routes:
        assert route.reason
        assert route.policy_sources


def test_a_route_that_contradicts_the_policys_inputs_opens_nothing() -> None:
    policy = child(Agent())
    policy.read_only = True
    box = resolve(policy, bind_all)
    assert "write_file" not in box.tools
    assert list(box.refused["write_file"].policy_sources) == ["policy.read_only"]


def test_a_tool_that_nothing_can_run_is_refused_and_never_visible() -> None:
    box = resolve(child(Agent()), lambda manifest, route: works if manifest.tool_name == "read_file" else None)
    assert list(box.tools) == ["read_file"]
    assert list(box.refused["list_files"].policy_sources) == ["runtime"]


def test_a_tool_without_a_route_is_refused() -> None:
    box = resolve(ToolPolicy(workspace="home"), bind_all)
    assert not box.tools
    assert len(box.refused) == len(KNOWN_TOOLS)


def test_set_fields_win_over_settings_and_stay_in_bounds() -> None:
    inherited = effective_subagent_config(Agent(), SubagentSettings(max_concurrent=5, timeout_seconds=9))
    assert (inherited.max_concurrent, inherited.timeout_seconds, inherited.max_tool_rounds) == (5, 9, 25)
    assert inherited.allowed_preset_agent_ids is None
    assert inherited.allowed_tool_names is None
    own = SubagentConfig(
        enabled=False, max_concurrent=99, timeout_seconds=0, max_tool_rounds=4, allowed_preset_agent_ids=names()
    )
    config = effective_subagent_config(Agent(subagent_config=own), SETTINGS)
    assert (config.enabled, config.max_concurrent, config.timeout_seconds) == (False, MAX_CONCURRENT, 1)
    assert config.max_tool_rounds == 4
    assert config.allowed_preset_agent_ids == frozenset()
