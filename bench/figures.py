"""What a benchmark yields, and how value and floor are taken in turns."""

from __future__ import annotations

import json
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

Sample = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. The ratio counts; absolute values depend on the machine."""

    name: str
    unit: str
    value: float
    floor: float
    spread: tuple[float, float]
    """Quartiles of the ratio over blocks of the run."""
    limit: float | None = None
    """The ratio that is to be reached; None: reported only."""
    at_least: bool = False
    """The limit is a least ratio, not a greatest one."""

    @property
    def ratio(self) -> float:
        return self.value / self.floor if self.floor else float("inf")

    @property
    def within(self) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.limit is None:
            return None
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit

    def line(self) -> str:
        """One JSON object."""
        return json.dumps(
            {
                "name": self.name,
                "unit": self.unit,
                "value": round(self.value, 4),
                "floor": round(self.floor, 4),
                "ratio": round(self.ratio, 3),
                "spread": [round(edge, 3) for edge in self.spread],
                "limit": self.limit,
            }
        )


async def alternate(count: int, value: Sample, floor: Sample, *, warm_up: int = 5) -> tuple[list[float], list[float]]:
    """`count` samples of each, taken in turns, after some that are dropped."""
    values: list[float] = []
    floors: list[float] = []
    for number in range(-warm_up, count):
        pair = (await value(), await floor()) if number % 2 else tuple(reversed((await floor(), await value())))
        if number >= 0:
            values.append(pair[0])
            floors.append(pair[1])
    return values, floors


def median_figure(
    name: str, unit: str, values: Sequence[float], floors: Sequence[float], *, limit: float | None = None
) -> Figure:
    """Median over median; the spread is that of the ratios of up to ten consecutive blocks."""
    blocks = max(1, min(10, len(values) // 3))
    size = len(values) // blocks
    ratios = sorted(
        statistics.median(values[n * size : (n + 1) * size]) / statistics.median(floors[n * size : (n + 1) * size])
        for n in range(blocks)
    )
    low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
    return Figure(name, unit, statistics.median(values), statistics.median(floors), (low, high), limit)
