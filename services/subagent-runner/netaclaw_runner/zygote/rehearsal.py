"""Doing once, in the zygote, what every worker does first: what it makes on the way is then shared, not made anew."""

from __future__ import annotations

from netaclaw.session.v1.entry_pb2 import Message
from netaclaw.subagent.v1 import envelope_pb2 as pb
from netaclaw_runner import protocol
from netaclaw_runner.sandbox import seccomp

_RUN = "rehearsal"


def rehearse() -> None:
    """Build the filters, and send every kind of line through the codec."""
    seccomp.prepare()
    envelope = pb.SubagentTaskEnvelope(protocol_version=protocol.PROTOCOL_VERSION, history=[Message()])
    for table in (protocol.UP, protocol.DOWN):
        for kind in table.values():
            message = envelope if kind is pb.SubagentTaskEnvelope else kind()
            protocol.decode(protocol.encode(_RUN, message), table)
