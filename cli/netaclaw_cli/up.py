"""`netaclaw up`: the suite in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from typing import Any

from netaclaw_chassis.addresses import is_loopback
from netaclaw_cli import envoy, places
from netaclaw_cli.errors import CommandError
from netaclaw_cli.suite import Suite, SuiteOptions
from netaclaw_cli.topology import ENVOY_SERVICE, SERVICES


async def run(arguments: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM (0), or until a service cannot be kept running (1)."""
    options = SuiteOptions(
        data_dir=places.data_dir(arguments.data_dir, os.environ),
        workspaces=places.workspaces(arguments.workspace, os.environ),
        base_port=arguments.port,
        logs_to_files=arguments.quiet,
        metrics_port=arguments.metrics_port,
        environ=_environment(arguments),
    )
    services = (*SERVICES, ENVOY_SERVICE) if arguments.envoy else SERVICES
    suite = Suite(options, _report, services)
    stop = _signals(suite)
    entering = asyncio.ensure_future(suite.__aenter__())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([entering, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        await asyncio.wait([entering])
        return 0
    entering.result()
    try:
        print(f"netaclaw serves on {_door(arguments, suite)} (data in {options.data_dir}); Ctrl-C stops it", flush=True)
        ends: list[asyncio.Future[Any]] = [stopping, suite.failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await suite.stop()
    if suite.failed.done():
        _report(f"stopped: {suite.failed.result()}")
        return 1
    return 0


def _environment(arguments: argparse.Namespace) -> dict[str, str]:
    """The services' environment. Raises CommandError for options that do not fit each other."""
    made = dict(os.environ)
    given = {"NETACLAW_TLS_CERTIFICATE": arguments.tls_cert, "NETACLAW_TLS_KEY": arguments.tls_key}
    if any(given.values()) and not (arguments.envoy and all(given.values())):
        raise CommandError("--tls-cert and --tls-key belong together, and to --envoy")
    made |= {name: value for name, value in given.items() if value}
    if arguments.envoy:
        envoy.program()  # missing: said now, before anything is started
    if arguments.host:
        made["NETACLAW_ENVOY_HOST" if arguments.envoy else "NETACLAW_GATEWAY_HOST"] = arguments.host
    if arguments.envoy and not is_loopback(made.get("NETACLAW_ENVOY_HOST", "127.0.0.1")):
        made["NETACLAW_KEYS_REQUIRED"] = "true"
    return made


def _door(arguments: argparse.Namespace, suite: Suite) -> str:
    if arguments.envoy:
        scheme = "https" if arguments.tls_cert else "http"
        return f"{suite.envoy_address}, and as a web page on {scheme}://{suite.envoy_address}/, through Envoy"
    return f"{suite.address}, and as a web page on http://{suite.web_address}/"


def _signals(suite: Suite) -> asyncio.Event:
    """The first signal asks to stop; a second one kills."""
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            suite.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    return stop


def _report(line: str) -> None:
    sys.stderr.write(f"netaclaw: {line}\n")
