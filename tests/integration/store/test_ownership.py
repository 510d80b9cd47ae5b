"""Leases: one live owner, generations, and what happens to turns whose owner is gone."""

from __future__ import annotations

import asyncio
import dataclasses

from netaclaw.agent.v1.agent_pb2 import Agent
from netaclaw.agent.v1.agent_service_pb2 import CreateAgentRequest
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.session.v1 import subagent_pb2 as s
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from netaclaw_store.settings import StoreSettings
from tests.integration.store.driver import (
    INSTANCE,
    OWNER,
    Store,
    Turn,
    append,
    entry_write,
    metadata,
    refused,
    running_store,
)

OTHER = "orchestrator-2"


def _acquire(session_id: str, instance: str = INSTANCE, owner: str = OWNER) -> j.AcquireSessionRequest:
    return j.AcquireSessionRequest(instance_id=instance, owner_id=owner, session_id=session_id)


async def _kill(store: Store, instance: str) -> None:
    """As if the instance had not beaten for the lease's time."""
    await store.query("UPDATE instance SET expire_time = now() - interval '1 s' WHERE instance_id = $1", instance)


async def test_a_heartbeat_names_the_lease(settings: StoreSettings) -> None:
    async with running_store(dataclasses.replace(settings, lease_seconds=1.5)) as store:
        assert (await store.beat()).lease_ms == 1500


async def test_a_session_of_a_live_instance_is_owned_elsewhere(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    await turn.finish()
    async with refused(Reason.REASON_OWNED_ELSEWHERE) as errors:
        await store.begin(turn.session_id, instance_id=OTHER)
    assert errors[0].metadata == {"instance_id": INSTANCE, "address": f"{INSTANCE}:1"}
    async with refused(Reason.REASON_OWNED_ELSEWHERE):
        await store.journal.AcquireSession(_acquire(turn.session_id, OTHER))


async def test_a_turn_whose_owner_gives_the_session_back_is_claimed_at_once(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    await store.journal.ReleaseSession(_release(turn, turn.begun.generation - 1))  # of an owner long gone
    assert not (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))).turns
    await store.journal.ReleaseSession(_release(turn, turn.begun.generation))
    (claimed,) = (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))).turns
    assert (claimed.turn_id, claimed.takeovers) == (turn.begun.turn_id, 1)


def _release(turn: Turn, generation: int) -> j.ReleaseSessionRequest:
    return j.ReleaseSessionRequest(instance_id=INSTANCE, session_id=turn.session_id, generation=generation)


async def test_a_released_session_is_anybodys(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    await turn.finish()
    await store.journal.ReleaseSession(_release(turn, turn.begun.generation))
    taken = await store.begin(turn.session_id, instance_id=OTHER)
    assert taken.generation > turn.begun.generation


async def test_two_live_owners_cannot_both_write(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    await turn.finish()
    await _kill(store, INSTANCE)
    taken = await store.journal.AcquireSession(_acquire(turn.session_id, OTHER))
    await store.query("UPDATE instance SET expire_time = now() + interval '1 h'")  # the first one was only slow
    async with refused(Reason.REASON_STALE_GENERATION):
        await turn.append(entry_write(turn.assistant()))
    request = turn.request(entry_write(turn.assistant()), append_no=1, generation=taken.generation)
    assert not (await append(store, request)).repeated_append


async def test_a_session_in_which_a_turn_runs_is_not_acquired(store: Store) -> None:
    turn = await store.new_turn()
    async with refused(Reason.REASON_TURN_RUNNING):
        await store.journal.AcquireSession(_acquire(turn.session_id))
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.AcquireSession(_acquire(turn.session_id, owner="bob"))


async def test_a_newer_process_expels_an_older_one_of_the_same_instance(store: Store) -> None:
    old, new = new_id(), new_id()
    await store.beat(OTHER, incarnation_id=old)
    turn = await store.new_turn(instance_id=OTHER)
    await store.beat(OTHER, incarnation_id=new)
    async with refused(Reason.REASON_STALE_GENERATION):
        await turn.append(entry_write(turn.assistant()))
    async with refused(Reason.REASON_STALE_GENERATION):
        await store.beat(OTHER, incarnation_id=old)
    claimed = await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))
    assert [each.turn_id for each in claimed.turns] == [turn.begun.turn_id]


async def test_an_instance_that_leaves_gives_up_its_leases_at_once(store: Store) -> None:
    incarnation = new_id()
    await store.beat(OTHER, incarnation_id=incarnation)
    turn = await store.new_turn(instance_id=OTHER)
    assert (await store.beat(OTHER, incarnation_id=incarnation, leaving=True)).lease_ms == 0
    async with refused(Reason.REASON_STALE_GENERATION):
        await turn.append(entry_write(turn.assistant()))
    assert len((await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=INSTANCE))).turns) == 1


async def test_a_claim_that_went_unheard_is_made_again_when_the_claimer_says_what_it_runs(store: Store) -> None:
    await store.beat(OTHER)
    orphan, running, begun = [await store.new_turn(instance_id=INSTANCE if n == 0 else OTHER) for n in range(3)]
    await _kill(store, INSTANCE)
    plain = j.ClaimDueRequest(instance_id=OTHER)
    assert len((await store.journal.ClaimDue(plain)).turns) == 1  # unheard, and its lease is a live one
    assert not (await store.journal.ClaimDue(plain)).turns
    await store.query("UPDATE turn SET start_time = now() - interval '2 min' WHERE turn_id <> $1", begun.begun.turn_id)
    held = j.HeldTurns(turn_ids=[running.begun.turn_id])
    claimed = (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER, held=held))).turns
    assert [(each.turn_id, each.takeovers) for each in claimed] == [(orphan.begun.turn_id, 2)]
    held.turn_ids.append(orphan.begun.turn_id)
    assert not (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER, held=held))).turns
    everything = j.ClaimDueRequest(instance_id=OTHER, held=j.HeldTurns())
    claimed = (await store.journal.ClaimDue(everything)).turns
    assert {each.turn_id for each in claimed} == {orphan.begun.turn_id, running.begun.turn_id}, "not the one just begun"


async def test_an_orphaned_turn_is_claimed_once_and_counted(store: Store) -> None:
    await store.beat(OTHER)
    turn = await store.new_turn()
    nothing = await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))
    assert not nothing.turns
    await _kill(store, INSTANCE)
    claims = await asyncio.gather(
        *(store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER)) for _ in range(4)),
    )
    claimed = [each for response in claims for each in response.turns]
    assert len(claimed) == 1
    assert (claimed[0].owner_id, claimed[0].turn_id, claimed[0].takeovers) == (OWNER, turn.begun.turn_id, 1)
    assert claimed[0].agent == turn.begun.agent
    request = turn.request(entry_write(turn.assistant()), append_no=1, generation=claimed[0].generation)
    assert (await append(store, request)).append_no == 1


async def test_get_owner_names_the_owner_and_its_open_tasks(store: Store) -> None:
    turn = await store.new_turn()
    states = (s.SUBAGENT_TASK_STATE_RUNNING, s.SUBAGENT_TASK_STATE_COMPLETED)
    tasks = [s.SubagentTask(task_id=new_id(), state=state) for state in states]
    for task in tasks:
        write = j.SubagentTaskWrite(task=task, parent_entry_id=turn.anchor_id, batch_entry_id=new_id())
        await turn.append(j.Write(subagent_task=write))
    request = j.GetOwnerRequest(owner_id=OWNER, session_id=turn.session_id)
    owner = await store.journal.GetOwner(request)
    assert (owner.instance_id, owner.address) == (INSTANCE, f"{INSTANCE}:1")
    assert list(owner.open_tasks) == [tasks[0]]
    assert owner.session.running_turn_id == turn.begun.turn_id
    await _kill(store, INSTANCE)
    assert (await store.journal.GetOwner(request)).instance_id == ""
    request.owner_id = "bob"
    async with refused(Reason.REASON_SESSION_NOT_FOUND):
        await store.journal.GetOwner(request)


async def test_a_claim_makes_no_agent_that_the_turn_does_not_need(store: Store) -> None:
    await store.beat(OTHER)
    made = await store.agents.CreateAgent(CreateAgentRequest(agent=Agent(name="worker")), metadata=metadata())
    turn = await store.new_turn(agent_id=made.agent.agent_id)
    await _kill(store, INSTANCE)
    [claimed] = (await store.journal.ClaimDue(j.ClaimDueRequest(instance_id=OTHER))).turns
    assert (claimed.turn_id, claimed.agent.name) == (turn.begun.turn_id, "worker")
    assert list(claimed.presets) == list(turn.begun.presets)
    assert [row["name"] for row in await store.query("SELECT name FROM agent")] == ["worker"]
