"""Answering questions from the chat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from netaclaw.chat.v1.chat_service_pb2 import RespondClarifyRequest, RespondClarifyResponse
from netaclaw.session.v1.entry_pb2 import ClarifyBody, ClarifyState, Entry, EntryKind
from netaclaw_cli.chat_session import ChatSession
from netaclaw_cli.errors import CommandError


@dataclass
class Asked:
    """Takes the answers that a client sends."""

    answers: list[RespondClarifyRequest] = field(default_factory=list)
    address: str = "h:1"

    @property
    def chat(self) -> Any:
        return self

    async def RespondClarify(self, request: RespondClarifyRequest) -> RespondClarifyResponse:
        self.answers.append(request)
        return RespondClarifyResponse()


def session(*questions: tuple[str, ClarifyState, list[str]]) -> tuple[ChatSession, Asked]:
    asked = Asked()
    chat = ChatSession(asked, "", lambda text: None, lambda line: None)  # type: ignore[arg-type]  # as much of a client as it needs
    chat.view.session_id = "s"
    for request_id, state, choices in questions:
        body = ClarifyBody(request_id=request_id, state=state, choices=choices)
        chat.view.entries[request_id] = Entry(kind=EntryKind.ENTRY_KIND_CLARIFY, clarify=body)
    return chat, asked


OPEN, ANSWERED = ClarifyState.CLARIFY_STATE_OPEN, ClarifyState.CLARIFY_STATE_ANSWERED


@pytest.mark.parametrize(
    ("typed", "answer"), [("2", "blue"), ("3", "3"), ("0", "0"), ("green", "green"), ("²", "²"), ("99999", "99999")]
)
async def test_a_number_chooses_and_other_words_are_the_answer(typed: str, answer: str) -> None:
    chat, asked = session(("old", ANSWERED, []), ("new", OPEN, ["red", "blue"]), ("newer", OPEN, []))
    await chat.answer(typed)
    [sent] = asked.answers
    assert (sent.session_id, sent.request_id, sent.answer) == ("s", "new", answer)


async def test_without_an_open_question_an_answer_is_refused() -> None:
    chat, asked = session(("old", ANSWERED, []))
    with pytest.raises(CommandError, match="no question"):
        await chat.answer("yes")
    assert not asked.answers
