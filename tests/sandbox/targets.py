"""What a probing worker tries to reach: files, sockets and a process beside its workspace."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Targets:
    """All of them, owned by who made them, and open to everybody as far as file permissions go."""

    base: Path
    sockets: list[socket.socket] = field(default_factory=list)
    _room: bytearray = field(default_factory=lambda: bytearray(64))

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def context(self) -> dict[str, Any]:
        """What attacks are told."""
        tcp, udp, stream, datagram, abstract = self.sockets
        return {
            "secret": str(self.outside / "secret"),
            "victim": str(self.outside / "victim"),
            "outside": str(self.outside),
            "parent": os.getpid(),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix_stream": stream.getsockname(),
            "unix_datagram": datagram.getsockname(),
            "abstract": abstract.getsockname()[1:].decode(),
            "mark": f"netaclaw-probe-{os.getpid()}",
            "address": id(self._room),
        }


@contextlib.contextmanager
def targets() -> Iterator[Targets]:
    """Set them up, and away again."""
    base = Path(tempfile.mkdtemp(prefix="netaclaw-probe-"))
    made = Targets(base)
    try:
        _make_files(made)
        _make_sockets(made)
        yield made
    finally:
        for sock in made.sockets:
            sock.close()
        shutil.rmtree(base)


def _make_files(made: Targets) -> None:
    made.base.chmod(0o755)
    for folder in (made.workspace, made.outside, made.workspace / "swapped"):
        folder.mkdir()
        folder.chmod(0o755)
    (made.outside / "secret").write_text("topsecret")
    (made.outside / "victim").write_text("victim")
    (made.outside / "victim").chmod(0o666)
    (made.workspace / "file").write_text("harmless")
    (made.workspace / "swapped" / "secret").write_text("harmless")
    (made.workspace / "link").symlink_to(made.outside / "secret")
    (made.workspace / "evil").symlink_to(made.outside)


def _make_sockets(made: Targets) -> None:
    made.sockets.append(socket.create_server(("127.0.0.1", 0)))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    made.sockets.append(udp)
    for name, kind in (("stream", socket.SOCK_STREAM), ("datagram", socket.SOCK_DGRAM)):
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.bind(str(made.base / name))
        (made.base / name).chmod(0o777)
        made.sockets.append(sock)
    made.sockets[2].listen()
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0netaclaw-probe-{os.getpid()}")
    abstract.listen()
    made.sockets.append(abstract)


@contextlib.contextmanager
def swapping(workspace: Path) -> Iterator[None]:
    """Exchange a folder for a link that leads out, again and again."""
    over = threading.Event()

    def swap() -> None:
        good, evil, aside = workspace / "swapped", workspace / "evil", workspace / "aside"
        while not over.is_set():
            good.rename(aside)
            evil.rename(good)
            good.rename(evil)
            aside.rename(good)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
