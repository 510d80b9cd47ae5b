"""Messages to a running child enter once, and have their receipts."""

from __future__ import annotations

from pathlib import Path

from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_agent.loop import text_of
from tests.integration.runner.rig import (
    ScriptModel,
    runner,
)

WRITE = ("write_file", '{"path":"out.txt","content":"x"}')


async def test_steering_enters_before_the_next_model_call_with_a_receipt(tmp_path: Path) -> None:
    model = ScriptModel([WRITE], "north it is")
    async with runner(tmp_path, model) as rig:
        run = await rig.start()
        asked = (await run.until("proxy_tool_call")).proxy_tool_call
        await run.tell(steer=pb.Steer(request_id="s1", content="look north"))
        await run.tell(proxy_tool_result=pb.ProxyToolResult(call_id=asked.call_id, content="ok"))
        receipt = (await run.until("steer_taken")).steer_taken
        await run.finish()

    assert receipt.request_id == "s1"
    assert text_of(model.calls[1].messages[-1]) == "look north"


async def test_a_message_that_is_sent_again_enters_once_and_its_receipt_is_told_again(tmp_path: Path) -> None:
    model = ScriptModel([WRITE], [WRITE], "north it is")
    async with runner(tmp_path, model) as rig:
        run = await rig.start()

        async def answer_call() -> None:
            asked = (await run.until("proxy_tool_call")).proxy_tool_call
            for _ in range(2):
                await run.tell(steer=pb.Steer(request_id="s1", content="look north"))
            await run.tell(proxy_tool_result=pb.ProxyToolResult(call_id=asked.call_id, content="ok"))

        await answer_call()
        await answer_call()
        await run.finish()

    assert [event.steer_taken.request_id for event in run.events if event.HasField("steer_taken")] == ["s1"] * 3
    assert [text_of(message) for message in model.calls[-1].messages].count("look north") == 1
