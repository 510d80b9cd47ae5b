"""Random turns, branches, commands and reconnects against the real suite; after each step every view is the tree."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from netaclaw.chat.v1.chat_service_pb2 import WhenBusy
from tests.model_based.session import ROOT, ModelSession
from tests.model_based.world import DELEGATE, Stepper, World, open_world

STEPS = int(os.environ.get("NETACLAW_TEST_STEPS", "1200"))
"""Steps of all examples together."""
STEPS_PER_EXAMPLE = 30
SESSIONS = 2
MAX_SESSIONS = 4

ANY = st.integers(0, 1_000)
"""Chooses among what there is."""
PLACE = st.none() | st.just(ROOT) | ANY
"""Where a message goes: behind the leaf, to the root, or behind one of the entries."""


class Sessions(RuleBasedStateMachine):
    """Several sessions with several clients each."""

    stepper: Stepper

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[ModelSession] = []
        self._count = 0

    @initialize()
    def sessions_are_made(self) -> None:
        async def made() -> None:
            for _ in range(SESSIONS):
                session = ModelSession(self.world, await self.world.new_session())
                self.sessions.append(session)
                await session.send(self.words("say"), "")

        self.run(made())

    @property
    def world(self) -> World:
        return self.stepper.world

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.stepper.run(work)

    def session(self, n: int) -> ModelSession:
        return self.sessions[n % len(self.sessions)]

    def held(self, n: int) -> ModelSession | None:
        held = [session for session in self.sessions if session.held]
        return held[n % len(held)] if held else None

    def interject(self, n: int, how: WhenBusy, place: int | str | None = None) -> None:
        session = self.held(n)
        assert session is not None
        self.run(session.interject(self.words("between"), how, self.place(session, place)))

    def place(self, session: ModelSession, place: int | str | None) -> str:
        if place is None or place == ROOT:
            return place or ""
        return session.node(int(place))

    def words(self, kind: str) -> str:
        """A message that no other one equals."""
        self._count += 1
        return f"{kind} {self._count}"

    @rule(n=ANY, kind=st.sampled_from(["say", "say", "fail", DELEGATE]), place=PLACE)
    def a_message_is_sent(self, n: int, kind: str, place: int | str | None) -> None:
        session = self.session(n)
        content = kind if kind == DELEGATE else self.words(kind)
        self.run(session.send(content, self.place(session, place)))

    @rule(n=ANY, place=PLACE)
    def an_answer_is_held(self, n: int, place: int | str | None) -> None:
        session = self.session(n)
        self.run(session.hold(self.words(f"hold {session.session_id}"), self.place(session, place)))

    @precondition(lambda self: self.held(0))
    @rule(n=ANY, place=st.none() | st.just(ROOT))
    def a_message_waits(self, n: int, place: str | None) -> None:
        self.interject(n, WhenBusy.WHEN_BUSY_ENQUEUE, place)

    @precondition(lambda self: self.held(0))
    @rule(n=ANY)
    def a_message_steers(self, n: int) -> None:
        self.interject(n, WhenBusy.WHEN_BUSY_STEER)

    @precondition(lambda self: self.held(0))
    @rule(n=ANY)
    def a_message_interrupts(self, n: int) -> None:
        self.interject(n, WhenBusy.WHEN_BUSY_INTERRUPT)

    @precondition(lambda self: any(session.waiting for session in self.sessions))
    @rule(n=ANY)
    def a_waiting_message_is_taken_back(self, n: int) -> None:
        waiting = [session for session in self.sessions if session.waiting]
        self.run(waiting[n % len(waiting)].retract())

    @precondition(lambda self: self.held(0))
    @rule(n=ANY)
    def a_held_answer_ends(self, n: int) -> None:
        session = self.held(n)
        assert session is not None
        self.run(session.release())

    @rule(n=ANY)
    def a_turn_is_cancelled(self, n: int) -> None:
        self.run(self.session(n).cancel())

    @rule(n=ANY, place=st.just(ROOT) | ANY)
    def the_leaf_is_switched(self, n: int, place: int | str) -> None:
        session = self.session(n)
        if entry_id := self.place(session, place):
            self.run(session.switch(entry_id))

    @rule(n=ANY, node=ANY)
    def a_branch_is_deleted(self, n: int, node: int) -> None:
        session = self.session(n)
        if entry_id := session.node(node):
            self.run(session.delete(entry_id))

    @rule(n=ANY, node=ANY)
    def an_entry_is_labelled(self, n: int, node: int) -> None:
        session = self.session(n)
        if entry_id := session.node(node):
            self.run(session.label(entry_id, self.words("label")))

    @precondition(lambda self: len(self.sessions) < MAX_SESSIONS)
    @rule(n=ANY, node=st.none() | ANY)
    def a_session_is_forked(self, n: int, node: int | None) -> None:
        session = self.session(n)

        async def forked() -> None:
            copy = ModelSession(self.world, await session.fork("" if node is None else session.node(node)))
            self.sessions.append(copy)
            await copy.take_over()

        self.run(forked())

    @rule(n=ANY, who=ANY, how=st.sampled_from(["goes on", "reads the tree", "starts from nothing"]))
    def a_client_comes(self, n: int, who: int, how: str) -> None:
        session = self.session(n)

        async def come() -> None:
            wanderer = session.wanderers[who % len(session.wanderers)]
            await wanderer.leave()
            await wanderer.connect(await session.view_for(how))

        self.run(come())

    @rule(n=ANY, who=ANY)
    def a_client_goes(self, n: int, who: int) -> None:
        session = self.session(n)
        self.run(session.wanderers[who % len(session.wanderers)].leave())

    @rule()
    def the_road_is_cut(self) -> None:
        self.world.road.cut()

    @invariant()
    def every_view_is_the_stored_tree(self) -> None:
        async def checked() -> None:
            for session in self.sessions:
                await session.check()

        self.run(checked())

    def teardown(self) -> None:
        async def closed() -> None:
            for session in self.sessions:
                if session.held:
                    await session.cancel()
                await session.close()

        self.run(closed())


@pytest.mark.timeout(0)
def test_every_view_is_the_stored_tree_after_every_step(postgres_url: str, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "one.py").write_text("needle = 1\n")
    with open_world(postgres_url, tmp_path / "data", workspace) as stepper:

        class Machine(Sessions):
            pass

        Machine.stepper = stepper
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=max(1, STEPS // STEPS_PER_EXAMPLE),
                stateful_step_count=STEPS_PER_EXAMPLE,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
