"""Processes that are no children of the test."""

from __future__ import annotations

import asyncio
import os


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
