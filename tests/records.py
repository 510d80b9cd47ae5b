"""What a suite said, as a file that tests in any language read."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from google.protobuf.json_format import MessageToDict

from netaclaw.chat.v1.event_pb2 import ChatEvent
from netaclaw.session.v1.session_service_pb2 import GetSessionTreeResponse


def print_record(tree: GetSessionTreeResponse, events: Iterable[ChatEvent], *, directory: str) -> None:
    """Print tree and events as JSON, an event a line. Exits where the directory's name is in it."""
    lines = ",\n".join(json.dumps(MessageToDict(event), ensure_ascii=False) for event in events)
    text = f'{{"tree": {json.dumps(MessageToDict(tree), ensure_ascii=False)},\n"events": [\n{lines}\n]}}'
    if directory in text:
        raise SystemExit("a path of this machine is in the record")
    sys.stdout.write(text + "\n")
