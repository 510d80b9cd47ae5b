"""Processes of the machine, and their ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


async def gone(pid: int) -> None:
    """Wait for a process's end."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    readable = asyncio.Event()
    asyncio.get_running_loop().add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)


def zombies() -> list[int]:
    """Descendants of this process that nobody has reaped; not those of its database, which come and go."""
    parents: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            command, _, rest = path.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent, *_ = rest.split()
        if "(postgres" not in command:
            parents[int(path.parent.name)] = int(parent), state
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in parents.items() if parent in ours} - ours:
        ours |= more
    return [pid for pid in ours if parents[pid][1] == "Z"]
