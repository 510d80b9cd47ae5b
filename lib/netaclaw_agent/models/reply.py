"""One streamed answer, from bytes to deltas to a message. It knows no connection, so any bytes can be tried on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw_agent.model import ModelError
from netaclaw_agent.models.assembler import Delta, MessageAssembler
from netaclaw_agent.models.faults import ProviderError
from netaclaw_agent.models.sse import SseParser


class Reader(Protocol):
    """A provider's format: what its decoded events say to an assembler."""

    assembler: MessageAssembler

    @property
    def done(self) -> bool:
        """An event said that the answer is over."""
        ...

    def read(self, event: object) -> list[Delta]:
        """Take one event. Raises ModelError."""
        ...

    def finish(self) -> list[Delta]:
        """No more events will come."""
        ...


class Reply:
    """Feed it the body in any cuts, then `end` it and take the message. Raises ModelError and nothing else; what was
    given out before stays valid."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._parser = SseParser()
        self.events = 0
        """Data events so far; comments are none."""

    @property
    def assembler(self) -> MessageAssembler:
        """What is known so far."""
        return self._reader.assembler

    @property
    def done(self) -> bool:
        """The end mark came; what follows it is no part of the answer."""
        return self._parser.done or self._reader.done

    def feed(self, data: bytes) -> Iterator[Delta]:
        """More of an event stream. Events are decoded one by one: a broken one takes nothing from those before it."""
        for event in self._parser.feed(data):
            if self._reader.done:
                return
            self.events += 1
            yield from self._reader.read(_decode(event))

    def whole(self, body: bytes) -> Iterator[Delta]:
        """A body that is no stream, from servers that ignore `stream`."""
        self._parser.done = True
        yield from self._reader.read(_decode(body))

    def end(self) -> Iterator[Delta]:
        """The body is over. What stands behind the last separator is a chunk of a server that ends without one, or a
        chunk cut in two, of which nothing is taken: the message's own end rule reports the cut."""
        for event in [] if self.done else self._parser.finish():
            try:
                decoded = _decode(event)
            except ModelError:
                break
            yield from self._reader.read(decoded)
        yield from self._reader.finish()

    def message(self) -> Message:
        """The finished message."""
        return self.assembler.message(done=self.done)


def _decode(event: bytes) -> object:
    """Bytes that are no UTF-8 are replaced, as readers of event streams do: a bad letter ends no answer."""
    try:
        try:
            return json.loads(event)
        except UnicodeDecodeError:
            return json.loads(event.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise ProviderError("the model provider sent an event that is not JSON") from None
