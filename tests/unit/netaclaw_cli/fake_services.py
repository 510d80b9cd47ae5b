"""Small real services for tests of the suite, written as modules that `python -m` runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netaclaw_cli.topology import Service

SERVICE = """
import contextlib, os, sys
from netaclaw_chassis import lifecycle
from netaclaw_chassis.lifecycle import StartError
from netaclaw_chassis.server import GrpcServer, PortInUse

NAME = {name!r}
HERE = os.path.dirname(__file__)

@contextlib.asynccontextmanager
async def open_app():
    note("start " + os.environ.get("SEEN", "") + " " + os.environ.get("PEER", ""))
    if os.path.exists(os.path.join(HERE, NAME + ".broken")):
        raise StartError("it is broken")
    server = GrpcServer("127.0.0.1", int(os.environ["PORT_" + NAME.upper()]), ())
    try:
        await server.start()
    except PortInUse as error:
        raise StartError(str(error)) from error
    yield {{"public": server.address}}
    await server.stop(0.1)
    note("stop")
    if os.path.exists(os.path.join(HERE, NAME + ".stubborn")):
        import time
        time.sleep(60)  # it does not stop: to be killed

def note(words):
    with open(os.path.join(HERE, "notes"), "a") as file:
        file.write(NAME + " " + words.strip() + "\\n")

sys.exit(lifecycle.run(NAME, open_app))
"""


def make(directory: Path, names: Sequence[str]) -> list[Service]:
    """Write a service for each name; each is given the address of the one before it as PEER."""
    services = []
    for n, name in enumerate(names):
        module = f"fake_{name}"
        (directory / f"{module}.py").write_text(SERVICE.format(name=name))
        peer = {"PEER": (names[n - 1], "public")} if n else {}
        services.append(Service(name, module, {"public": f"PORT_{name.upper()}"}, (n,), peer, start_timeout_s=20.0))
    return services


def notes(directory: Path) -> list[str]:
    """What the services did, in order."""
    path = directory / "notes"
    return path.read_text().splitlines() if path.exists() else []
