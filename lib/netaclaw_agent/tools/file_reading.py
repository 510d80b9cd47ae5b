"""Reading text files in bounded pieces: counting lines, and taking a range of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

_BLOCK = 256 * 1024
_SNIFFED = 8 * 1024


@dataclass(frozen=True, slots=True)
class LineRange:
    """Some lines of a file."""

    text: str
    """The lines with their breaks; bytes that are not UTF-8 are replaced."""
    first: int
    """Number of the first line asked for, from 1."""
    last: int
    """Number of the last line in `text`; first - 1 when there is none."""
    total: int
    """Lines of the whole file; a last line without a break counts."""
    cut: bool
    """The last line itself was too long and is not whole."""


def is_binary(file: BinaryIO) -> bool:
    """Whether the file's beginning holds a NUL byte, as git judges it. Leaves the position at the start."""
    found = b"\0" in file.read(_SNIFFED)
    file.seek(0)
    return found


def count_lines(file: BinaryIO) -> int | None:
    """Lines from the start to the end; None for a binary file."""
    if is_binary(file):
        return None
    return _count_rest(file, ended=True)


def read_range(file: BinaryIO, first: int, limit: int, max_bytes: int) -> LineRange:
    """Read `limit` lines from number `first` on, or as many as fit into `max_bytes`, and count all lines.

    Memory stays within max_bytes and a block, however long the file or its lines are.
    """
    number = 0  # lines whose start was read
    ended = True  # the line before ended with a break
    kept: list[bytes] = []
    room = max_bytes
    last = first - 1
    cut = False
    while number < first + limit - 1 or not ended:
        piece = file.readline(_BLOCK)
        if not piece:
            break
        if ended:
            number += 1
        ended = piece.endswith(b"\n")
        if not first <= number < first + limit or cut:
            continue
        if len(piece) > room:
            if kept and number > last:
                break  # whole lines only, unless the first one is too long by itself
            piece, cut = piece[:room], True
        kept.append(piece)
        room -= len(piece)
        last = number
        if cut:
            break
    total = number + _count_rest(file, ended=ended)
    return LineRange(b"".join(kept).decode("utf-8", "replace"), first, last, total, cut)


def _count_rest(file: BinaryIO, *, ended: bool) -> int:
    """Lines that start after the position; `ended`: the position is the start of a line."""
    breaks = 0
    tail = b"\n" if ended else b""
    read = False
    while block := file.read(_BLOCK):
        read = True
        breaks += block.count(b"\n")
        tail = block[-1:]
    if not read:
        return 0
    # A break ends a line; what follows the last one is a line of its own, unless it belongs to the one before.
    started = breaks if ended else breaks - 1
    if tail != b"\n":
        started += 1
    return started
