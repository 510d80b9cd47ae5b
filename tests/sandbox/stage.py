"""Runs in a stance: a launcher with probing workers. Writes one line of JSON per order, then waits for its end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from netaclaw_runner.launcher import LaunchError
from netaclaw_runner.sandbox.options import MODES, LaunchOptions, ResourceLimits
from netaclaw_runner.zygote import process_tree
from netaclaw_runner.zygote.handle import ZygoteHandle
from netaclaw_runner.zygote.launcher import ZygoteLauncher
from tests.sandbox.targets import Targets, swapping, targets

ENTRY = "tests.sandbox.probe_worker:main"
SANDBOXED = [LaunchOptions("best_effort", writable, shell) for writable in (False, True) for shell in (False, True)]
OPEN = [LaunchOptions("off", writable=True, shell=True)]


async def ask(handle: ZygoteHandle, order: Mapping[str, Any]) -> Any:
    """One order to a probing worker, and its answer; None when it ends instead."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(handle.channel, json.dumps(order).encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        try:
            piece = await loop.sock_recv(handle.channel, 1 << 16)
        except ConnectionResetError:
            return None
        if not piece:
            return None
        data += piece
    return json.loads(data)


async def end(handle: ZygoteHandle) -> bool:
    """Kill a worker and let go of it."""
    handle.signal_tree(9)
    await handle.exited()
    gone = await handle.finish()
    handle.channel.close()
    os.close(handle.stderr_fd)
    return gone


async def _probe(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    return {"found": [await _probe_one(launcher, made, options) for options in SANDBOXED]}


async def _control(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    """The same attacks without a sandbox: they must get out, or they show nothing."""
    assert os.geteuid() != 0, "what root may do without a sandbox, this machine is not asked to bear"
    return {"found": [await _probe_one(launcher, made, options) for options in OPEN]}


async def _probe_one(launcher: ZygoteLauncher, made: Targets, options: LaunchOptions) -> dict[str, Any]:
    workspace = os.open(made.workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        handle = await launcher.launch(workspace, options=options)
    finally:
        os.close(workspace)
    with swapping(made.workspace):
        outcomes = await ask(handle, {"do": "probe", "context": _context(launcher, made, handle, options)})
    return {
        "writable": options.writable,
        "shell": options.shell,
        "in_force": list(handle.sandbox.in_force),
        "missing": list(handle.sandbox.missing),
        "outcomes": outcomes,
        "gone": await end(handle),
    }


def _context(launcher: ZygoteLauncher, made: Targets, handle: ZygoteHandle, options: LaunchOptions) -> dict[str, Any]:
    limits = ResourceLimits()
    return {
        **made.context(),
        "zygote": launcher.zygote_pid,
        "shell": options.shell,
        "rooted": "mount_namespace" in handle.sandbox.in_force,
        "address_space": limits.shell_address_space if options.shell else limits.address_space,
        "file_size": limits.file_size,
    }


async def _own(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    """Files of a workspace that only its owner may enter: read, and written; whose they are then."""
    made.workspace.chmod(0o700)
    (made.workspace / "file").chmod(0o600)
    workspace = os.open(made.workspace, os.O_RDONLY | os.O_DIRECTORY)
    answers: dict[str, Any] = {}
    for writable in (False, True):
        handle = await launcher.launch(workspace, options=LaunchOptions(MODES[1], writable))
        answers["read"] = await ask(handle, {"do": "read", "name": "file"})
        if writable:
            answers["written"] = await ask(handle, {"do": "write", "name": "made"})
            answers["uid"] = (await ask(handle, {"do": "about"}))["uid"]
        await end(handle)
    os.close(workspace)
    return {**answers, "owner": (made.workspace / "made").stat().st_uid, "me": os.geteuid()}


async def _required(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    """What mode `required` says here."""
    workspace = os.open(made.workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        handle = await launcher.launch(workspace, options=LaunchOptions("required", writable=True))
    except LaunchError as error:
        return {"error": str(error)}
    finally:
        os.close(workspace)
    await end(handle)
    return {"error": ""}


async def _tree(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    """Workers with trees, left standing. Names every process below this one."""
    handles = [await launcher.launch(None, options=LaunchOptions(MODES[1], shell=True)) for _ in range(3)]
    for handle in handles:
        assert await ask(handle, {"do": "grow"}) == "grown"
    _standing.extend(handles)
    below = process_tree.descendants(os.getpid())
    return {"zygote": launcher.zygote_pid, "below": below, "base": str(made.base)}


async def _leave(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    """Each way in which a worker goes: killed, ended by itself. Whether its tree was confirmed gone."""
    answers = []
    for code in (None, 7):
        handle = await launcher.launch(None, options=LaunchOptions(MODES[1], shell=True))
        assert await ask(handle, {"do": "grow"}) == "grown"
        grown = {handle.pid, *process_tree.descendants(handle.pid)}
        if code is None:
            handle.signal_tree(9)
        else:
            await ask(handle, {"do": "exit", "code": code})
        status = await handle.exited()
        gone = await handle.finish()
        left = set(process_tree.descendants(os.getpid())) & grown
        handle.channel.close()
        os.close(handle.stderr_fd)
        answers.append({"status": status, "gone": gone, "grown": len(grown), "left": len(left)})
    return {"ends": answers}


async def _about(launcher: ZygoteLauncher, made: Targets) -> dict[str, Any]:
    handle = await launcher.launch(None)
    answer = await ask(handle, {"do": "about"})
    await end(handle)
    assert isinstance(answer, dict)
    return answer


_standing: list[ZygoteHandle] = []
_ORDERS = {
    "probe": _probe,
    "control": _control,
    "own": _own,
    "required": _required,
    "tree": _tree,
    "leave": _leave,
    "about": _about,
}


async def _main(setup: Mapping[str, Any]) -> None:
    launcher = ZygoteLauncher(entry=ENTRY, paths=[setup["root"]])
    with targets() as made:
        try:
            await launcher.start()
            answer = await _ORDERS[setup["do"]](launcher, made)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
            await _end_of_input()
        finally:
            await launcher.close()


async def _end_of_input() -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(0, over.set)
    await over.wait()
    loop.remove_reader(0)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
