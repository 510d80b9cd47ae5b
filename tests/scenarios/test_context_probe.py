"""Nothing of a child but its final result ever reaches the main agent's model."""

from __future__ import annotations

import json
import random

from netaclaw.chat.v1.chat_service_pb2 import ExecuteChatRequest
from netaclaw.session.v1.entry_pb2 import EntryKind
from tests.fakes.openai_server import Call, FakeOpenAI, Reply, Text, Thinking
from tests.scenarios.goals import Goals, tasks
from tests.scenarios.suites import OpenSuite
from tests.scenarios.test_tools_shell import session_of

TURNS = 50


async def test_no_request_of_the_main_agent_holds_a_step_or_evidence_of_a_child(
    open_suite: OpenSuite, model_server: FakeOpenAI
) -> None:
    """Every argument, result, thought and piece of evidence carries a canary of its own; fifty delegated turns."""
    chance = random.Random(7)  # canaries, not secrets

    def canary() -> str:
        canaries.append(f"canary-{chance.getrandbits(64):016x}")
        return canaries[-1]

    def child(turn: int) -> list[Reply]:
        steps = [
            Call("read_file", json.dumps({"path": f"{canary()}.txt"})),
            Call("search_files", json.dumps({"query": canary()})),
            Call("run_shell", json.dumps({"command": f"echo {canary()}; echo {canary()} >&2; exit {turn % 2}"})),
            Call("write_file", json.dumps({"path": f"{canary()}.md", "content": canary()})),
        ]
        chosen = chance.sample(steps, len(steps))
        return [Reply([Thinking(canary()), Text(canary()), *chosen]), Reply([Text(f"the result of turn {turn}")])]

    canaries: list[str] = []
    goals = model_server.rule = Goals({f"write, search and run {n}": child(n) for n in range(TURNS)})
    async with (
        open_suite("in_process", NETACLAW_OPENAI_BASE_URL=model_server.base_url) as suite,
        suite.client() as client,
    ):
        session_id = await session_of(suite, client, shell_enabled=True)
        for goal in goals.children:
            await client.chat.ExecuteChat(ExecuteChatRequest(session_id=session_id, content=tasks(goal)))
        entries = [entry for page in await suite.tree(client, session_id) for entry in page.entries]
    results = [entry for entry in entries if entry.kind == EntryKind.ENTRY_KIND_SUBAGENT_RESULT]
    kept = "".join(str(entry.subagent_result) for entry in results)
    assert len(results) == TURNS
    assert sum(canary in kept for canary in canaries) >= 3 * TURNS  # the probe would see them
    assert all(entry.subagent_result.evidence_summaries for entry in results)
    sent = json.dumps(goals.main_requests)
    assert "the result of turn 49" in sent
    assert [canary for canary in canaries if canary in sent] == []
