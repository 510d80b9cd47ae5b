"""How a service process lives: event loop, signals, announcement of its ports, ordered stop with a hard deadline."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from netaclaw_chassis import metrics, telemetry, tracing
from netaclaw_chassis.settings import SettingsError

log = logging.getLogger(__name__)

STOP_DEADLINE_S = 4.0
"""A service that has not stopped by then is cut; Ctrl-C ends the whole suite within 5 s."""

Ports = Mapping[str, str]
"""What a running service announces: a name such as "public" or "internal" to host:port."""


class StartError(Exception):
    """The service cannot start; the message is one clear line for the operator."""


def run(service: str, open_app: Callable[[], AbstractAsyncContextManager[Ports]]) -> int:
    """Run an app until SIGINT or SIGTERM; returns the process's exit code.

    `open_app` builds and starts the app; what it yields is announced as one JSON line in the file named by
    NETACLAW_ANNOUNCE, if set, and in the log. Known start errors end with one line on stderr and exit code 1.
    """
    telemetry.configure(service, os.environ.get("NETACLAW_LOG_LEVEL", "INFO"))
    tracing.configure(service, os.environ)
    try:
        _serve_metrics(os.environ)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_main(open_app))
    except (StartError, SettingsError) as error:
        sys.stderr.write(f"netaclaw-{service}: {error}\n")
        return 1
    finally:
        tracing.stop()
    return 0


def _serve_metrics(environ: Mapping[str, str]) -> None:
    port = environ.get("NETACLAW_METRICS_PORT", "")
    if not port:
        return
    try:
        metrics.serve(int(port))
    except (ValueError, OverflowError):
        raise SettingsError("NETACLAW_METRICS_PORT is not a port") from None
    except OSError as error:
        raise StartError(f"cannot serve metrics on 127.0.0.1:{port}: {error.strerror}") from None


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one: measured a fifth cheaper per message."""
    try:
        import uvloop  # noqa: PLC0415  # optional on platforms without it
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _main(open_app: Callable[[], AbstractAsyncContextManager[Ports]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_app() as ports:
        settle()
        _announce(ports)
        log.info("serving", extra={"ports": dict(ports)})
        await stop.wait()
        log.info("stopping")
        # By the kernel's hand, not the loop's: closing the loop itself was seen to hang beside grpc's poller.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, STOP_DEADLINE_S)
    log.info("stopped")


def settle() -> None:
    """What a start has loaded stays for good: the garbage collector need not walk through it again and again."""
    gc.collect()
    gc.freeze()


def _announce(ports: Ports) -> None:
    path = os.environ.get("NETACLAW_ANNOUNCE")
    if path:
        target = Path(path)
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps(dict(ports)) + "\n")
        partial.replace(target)  # readers see the whole line or nothing
