"""Where the sandbox is tried from: as root and as an ordinary user, with namespaces and without.

A stance is a Python process of its own that became who it is before it ran `tests.sandbox.stage`. "bare" stances have
a system call filter that refuses namespaces and mounts, as default containers do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from netaclaw_runner.launcher import import_paths

Stance = Literal["root", "user", "root-bare", "user-bare"]
STANCES: tuple[Stance, ...] = get_args(Stance)

ORDINARY_UID = 23456
_END_S = 30
CANARY = "canary-4f1d"
LINUX = sys.platform == "linux"
REPOSITORY = Path(__file__).resolve().parents[2]


def possible(stance: Stance) -> bool:
    """An ordinary user cannot try what root does."""
    return os.geteuid() == 0 or stance.startswith("user")


def start(stance: Stance, order: Mapping[str, Any]) -> subprocess.Popen[str]:
    """Start the stage, in a process group of its own; it answers with lines of JSON on stdout."""
    setup = {"stance": stance, "order": dict(order), "paths": [str(REPOSITORY), *import_paths()]}
    return subprocess.Popen(
        [sys.executable, "-B", "-m", "tests.sandbox.stances", json.dumps(setup)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(setup["paths"]), "NETACLAW_SECRET": CANARY},
        cwd="/",
        text=True,
        start_new_session=True,
    )


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The stage's answer, which it gives while it still stands."""
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline() or "null")
    assert isinstance(answer, dict), "the stage broke; its words are on stderr"
    return answer


def ask(stance: Stance, order: Mapping[str, Any]) -> dict[str, Any]:
    """One order, its answer, and the stage's orderly end."""
    process = start(stance, order)
    try:
        answer = answer_of(process)
        process.communicate(timeout=_END_S)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0
    return answer


def _become(setup: Mapping[str, Any]) -> None:
    from netaclaw_runner.sandbox import kernel, seccomp  # noqa: PLC0415  # only in the process that becomes a stance
    from netaclaw_runner.sandbox.syscalls import architecture_of  # noqa: PLC0415  # likewise

    stance: Stance = setup["stance"]
    interpreter, paths = sys.executable, list(setup["paths"])
    if stance.startswith("user") and os.geteuid() == 0:
        interpreter, paths = _within_reach_of_others(paths)
        os.setgroups([])
        os.setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
        os.setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    if stance.endswith("bare"):
        architecture = architecture_of(kernel.machine())
        assert architecture is not None
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        refused = ("unshare", "setns", "mount", "open_tree", "move_mount", "fsopen")
        kernel.set_seccomp(seccomp.deny_only(refused, architecture))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    argv = [interpreter, "-B", "-m", "tests.sandbox.stage", json.dumps({**setup["order"], "root": paths[0]})]
    os.execve(interpreter, argv, environment)


def _within_reach_of_others(paths: list[str]) -> tuple[str, list[str]]:
    """The interpreter and our code, mounted where every user may go, in a mount namespace of this process's own."""
    from netaclaw_runner.sandbox import kernel  # noqa: PLC0415  # only in the process that becomes a stance

    kernel.unshare(kernel.NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    base = os.path.realpath(sys.base_prefix)
    name = os.path.relpath(os.path.realpath(sys.executable), base)
    sources = [base, *paths]
    held = [os.open(source, os.O_PATH) for source in sources]
    kernel.mount("none", "/mnt", "tmpfs", 0, "size=64k,mode=755")
    found = []
    for count, source in enumerate(held):
        target = f"/mnt/{count}"
        os.mkdir(target)
        kernel.mount(f"/proc/self/fd/{source}", target, None, kernel.MS_BIND | kernel.MS_REC)
        os.close(source)
        found.append(target)
    return os.path.join(found[0], name), found[1:]


if __name__ == "__main__":
    _become(json.loads(sys.argv[1]))
