"""`netaclaw reload`: a session's view from its stored tree, as one JSON object; what a fresh client sees."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from netaclaw.session.v1.entry_pb2 import Entry, Session
from netaclaw_cli import places
from netaclaw_client import Client, SessionView


async def run(arguments: argparse.Namespace) -> int:
    """Print the view of a session as GetSessionTree gives it."""
    async with Client(places.gateway_address(arguments.address, os.environ)) as client:
        print(json.dumps(to_json(await client.load(arguments.session))))
    return 0


def to_json(view: SessionView) -> dict[str, Any]:
    """A view without what is being written, in proto3 JSON."""
    return {
        "seq": view.seq,
        "leafEntryId": view.leaf_entry_id,
        "session": json_format.MessageToDict(view.session),
        "entries": [json_format.MessageToDict(entry) for entry in view.entries.values()],
    }


def from_json(made: Mapping[str, Any]) -> SessionView:
    """The view that `to_json` was given."""
    session = json_format.ParseDict(made["session"], Session())
    entries = [json_format.ParseDict(entry, Entry()) for entry in made["entries"]]
    return SessionView(
        session_id=session.session_id,
        seq=made["seq"],
        leaf_entry_id=made["leafEntryId"],
        session=session,
        entries={entry.entry_id: entry for entry in entries},
    )
