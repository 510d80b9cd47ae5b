"""What a probing worker runs in place of a task: attacks by name, and a tree of processes to be ended."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tests.sandbox import attacks


def main(options: Mapping[str, Any]) -> int:
    """Obey lines of JSON on the channel until end of file."""
    channel = options["channel"]
    with os.fdopen(channel, "rb", closefd=False) as lines:
        for line in lines:
            order = json.loads(line)
            answer = _ORDERS[order["do"]](order, options)
            data = json.dumps(answer).encode() + b"\n"
            while data:
                data = data[os.write(channel, data) :]
    return 0


def _probe(order: Mapping[str, Any], options: Mapping[str, Any]) -> object:
    context = {**order["context"], "workspace_fd": options["workspace"], "in_force": options["sandbox"]["in_force"]}
    context["children"] = options["children"]
    return [asdict(attacks.run(name, context)) for name in attacks.names()]


def _about(_order: Mapping[str, Any], options: Mapping[str, Any]) -> object:
    return {
        "environment": dict(os.environ),
        "modules": sorted(sys.modules),
        "sandbox": options["sandbox"],
        "uid": os.geteuid(),
        "groups": os.getgroups(),
        "cwd": os.getcwd(),
        "session": os.getsid(0) == os.getpid(),
    }


def _grow_a_tree(_order: Mapping[str, Any], _options: Mapping[str, Any]) -> object:
    """Children in sessions of their own, one with an orphaned child; all deaf to SIGTERM. They wait for ever."""
    ready, told = os.pipe()
    for orphaned in (False, True):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if orphaned and os.fork():
                os._exit(0)
            if orphaned:
                os.setsid()
            os.write(told, b"y")
            while True:
                signal.pause()
    got = b""
    while len(got) < 2:
        got += os.read(ready, 2)
    return "grown"


def _write_file(order: Mapping[str, Any], options: Mapping[str, Any]) -> object:
    fd = os.open(order["name"], os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=options["workspace"])
    os.write(fd, b"written")
    os.close(fd)
    return "written"


def _read_file(order: Mapping[str, Any], options: Mapping[str, Any]) -> object:
    fd = os.open(order["name"], os.O_RDONLY, dir_fd=options["workspace"])
    try:
        return os.read(fd, 4096).decode()
    finally:
        os.close(fd)


def _exit(order: Mapping[str, Any], _options: Mapping[str, Any]) -> object:
    os._exit(order["code"])


_heard: list[int] = []


def _heed(_order: Mapping[str, Any], _options: Mapping[str, Any]) -> object:
    """A child in a session of its own that tells when SIGTERM comes. This process forgives it."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, lambda *_: os.write(told, b"t") and os._exit(0))
        os.write(told, b"r")
        while True:
            signal.pause()
    assert os.read(ready, 1) == b"r"
    _heard.append(ready)
    return "heeding"


def _told(_order: Mapping[str, Any], _options: Mapping[str, Any]) -> object:
    assert os.read(_heard.pop(), 1) == b"t"
    return "told"


_ORDERS = {
    "probe": _probe,
    "about": _about,
    "grow": _grow_a_tree,
    "write": _write_file,
    "read": _read_file,
    "exit": _exit,
    "heed": _heed,
    "told": _told,
}
