"""The command `netaclaw`."""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
from collections.abc import Callable, Sequence
from importlib import metadata

import grpc

from netaclaw_cli import chat, demo, doctor, keys, models, places, reload, up
from netaclaw_cli.child import ServiceFailed
from netaclaw_cli.errors import CommandError, words_for
from netaclaw_cli.topology import BASE_PORT

_MOST_DAYS = 36_500
INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; its exit code. What can be expected to go wrong is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that is not UTF-8 shows marks instead of an error
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.run
    try:
        return command(arguments)
    except (CommandError, ServiceFailed) as error:
        sys.stderr.write(f"netaclaw: {error}\n")
    except grpc.aio.AioRpcError as error:
        sys.stderr.write(f"netaclaw: {words_for(error, getattr(arguments, 'address', None) or 'the suite')}\n")
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="netaclaw", description="Agent chat with in-session subagents, as a suite of gRPC services."
    )
    parser.add_argument("--version", action="version", version=f"netaclaw {metadata.version('netaclaw')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands)
    _add_chat(commands)
    _add_demo(commands)
    _add_doctor(commands)
    _add_keys(commands)
    _add_models(commands)
    hidden = commands.add_parser("reload", description="Print a session's stored view as JSON.")
    hidden.add_argument("--address", metavar="HOST:PORT")
    hidden.add_argument("--session", metavar="ID", required=True)
    hidden.set_defaults(run=lambda arguments: asyncio.run(reload.run(arguments)))
    return parser


def _add_up(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "run the suite in the foreground on 127.0.0.1"
    command = commands.add_parser("up", help=about, description=about)
    command.add_argument("--data-dir", metavar="DIR", help=f"where everything is kept ({places.DEFAULT_DATA_DIR})")
    command.add_argument(
        "--port",
        type=_port,
        default=BASE_PORT,
        metavar="N",
        help=f"port of the gateway; the others take the seven after it ({BASE_PORT}; 0: any free ones)",
    )
    command.add_argument(
        "--workspace",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a directory that sessions can work in; may be given several times",
    )
    command.add_argument(
        "--envoy", action="store_true", help="put an Envoy in front: gRPC and gRPC-Web on one port, TLS, many services"
    )
    command.add_argument(
        "--host",
        metavar="HOST",
        help="where the door is, Envoy's or the gateway's; anything but a loopback address needs an API key to exist",
    )
    command.add_argument(
        "--metrics-port",
        type=_port,
        default=0,
        metavar="N",
        help="answer Prometheus on 127.0.0.1: store, runner, orchestrator and gateway at this port and the next three",
    )
    command.add_argument("--tls-cert", metavar="FILE", help="PEM certificate chain for Envoy; HTTP/2 for browsers")
    command.add_argument("--tls-key", metavar="FILE", help="its key")
    command.add_argument(
        "--quiet", action="store_true", help="write logs to files in the data directory, not to stderr"
    )
    command.set_defaults(run=lambda arguments: asyncio.run(up.run(arguments)))


def _add_chat(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "chat with a running suite"
    command = commands.add_parser("chat", help=about, description=about)
    command.add_argument("message", nargs="*", help="one message; without it a conversation begins")
    command.add_argument("--address", metavar="HOST:PORT", help=f"the gateway (127.0.0.1:{BASE_PORT})")
    command.add_argument("--session", metavar="ID", help="go on with a session")
    command.add_argument("--agent", metavar="NAME", help="the agent that answers")
    command.add_argument("--workspace", metavar="NAME", help="the workspace of a new session")
    command.set_defaults(run=chat.run)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "run one delegated turn on the current directory's files, with throw-away data"
    command = commands.add_parser("demo", help=about, description=about)
    command.add_argument("--json", action="store_true", help="print a report as the last line of stdout")
    command.set_defaults(run=lambda arguments: asyncio.run(demo.run(arguments)))


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "say what is missing on this machine and how to get it"
    command = commands.add_parser("doctor", help=about, description=about)
    command.add_argument("--data-dir", metavar="DIR", help=f"where everything is kept ({places.DEFAULT_DATA_DIR})")
    command.set_defaults(run=lambda arguments: asyncio.run(doctor.run(arguments)))


def _add_keys(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "make, list and revoke API keys of a running suite"
    command = commands.add_parser("keys", help=about, description=about)
    command.add_argument("--data-dir", metavar="DIR", help=f"the suite's data directory ({places.DEFAULT_DATA_DIR})")
    actions = command.add_subparsers(required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a key; prints its secret once")
    create.add_argument("owner", metavar="OWNER", help="whose sessions it opens")
    create.add_argument("--name", default="", help="for people: what it is for")
    create.add_argument("--days", type=_days, metavar="N", help="days until it expires; without: never")
    create.set_defaults(run=lambda arguments: asyncio.run(keys.create(arguments)))
    show = actions.add_parser("list", help="list keys, never their secrets")
    show.add_argument("owner", nargs="?", metavar="OWNER", help="only those of one owner")
    show.set_defaults(run=lambda arguments: asyncio.run(keys.show(arguments)))
    revoke = actions.add_parser("revoke", help="revoke a key; what it opened ends within a minute")
    revoke.add_argument("key", metavar="KEY", help="the key's id")
    revoke.set_defaults(run=lambda arguments: asyncio.run(keys.revoke(arguments)))


def _add_models(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "list the models that a running suite offers"
    command = commands.add_parser("models", help=about, description=about)
    command.add_argument("--address", metavar="HOST:PORT", help=f"the gateway (127.0.0.1:{BASE_PORT})")
    command.set_defaults(run=lambda arguments: asyncio.run(models.run(arguments)))


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65_528:
        raise argparse.ArgumentTypeError("must be from 0 to 65528")
    return port


def _days(text: str) -> float:
    days = float(text)
    if not 0 < days <= _MOST_DAYS:
        raise argparse.ArgumentTypeError(f"must be more than 0 and at most {_MOST_DAYS}")
    return days


if __name__ == "__main__":
    sys.exit(main())
