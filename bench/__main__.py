"""`make bench`: a table, or with --json one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console
from rich.table import Table

from bench import cancel, context, delegation, doors, store, stream, streams_max, turn, watch, worker
from bench.figures import Figure
from netaclaw_chassis.lifecycle import new_event_loop

BENCHMARKS: dict[str, Callable[[], Awaitable[Sequence[Figure]]]] = {
    "worker.start": worker.start,
    "worker.burst50": worker.burst,
    "worker.pss": worker.memory,
    "turn.first_token": turn.first_token_and_end,
    "turn.end": turn.first_token_and_end,
    "delegate8.wall": delegation.eight_at_once,
    "batch100.cost": delegation.batch_cost,
    "cancel50.p99": cancel.fifty,
    "cancel50.stubborn": cancel.fifty,
    "store.append": store.append,
    "store.snapshot10k": store.snapshot,
    "store.resume100k": store.resume,
    "store.growth": store.growth,
    "watch.idle1000": watch.idle,
    "stream.cpu": stream.cpu,
    "bridge.cpu": doors.cpu,
    "envoy.cpu": doors.cpu,
    "bridge.latency": doors.latency,
    "bridge.idle1000": doors.idle,
    "streams.max.bridge": streams_max.most,
    "streams.max.envoy": streams_max.most,
    "context.build10k": context.build,
    "context.append10k": context.build,
}
"""Every figure's name, and what measures it; one run may yield several."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure beside floors.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--only", metavar="NAME", choices=sorted(BENCHMARKS), help="one figure")
    options = parser.parse_args()
    wanted = [options.only] if options.only else list(BENCHMARKS)
    figures: list[Figure] = []
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        for measure in dict.fromkeys(BENCHMARKS[name] for name in wanted):
            for figure in runner.run(_measured(measure)):
                if figure.name in wanted:
                    figures.append(figure)
                    if options.json:
                        print(figure.line(), flush=True)
    if not options.json:
        _show(figures)
    return 0


async def _measured(measure: Callable[[], Awaitable[Sequence[Figure]]]) -> Sequence[Figure]:
    return await measure()


def _show(figures: Sequence[Figure]) -> None:
    table = Table("figure", "value", "floor", "ratio", "quartiles", "limit", "")
    for figure in figures:
        within = {None: "", True: "ok", False: "missed"}[figure.within]
        table.add_row(
            figure.name,
            f"{figure.value:.2f} {figure.unit}",
            f"{figure.floor:.2f} {figure.unit}",
            f"{figure.ratio:.2f}",
            f"{figure.spread[0]:.2f} to {figure.spread[1]:.2f}",
            "" if figure.limit is None else f"{'≥' if figure.at_least else '≤'} {figure.limit:g}",
            within,
        )
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
