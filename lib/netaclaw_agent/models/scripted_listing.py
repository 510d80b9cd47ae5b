"""Reads what the file tools answer, for the scripted model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_TOTALS = re.compile(r"# (\d+) files?, (\d+) bytes?(?:, (\d+) lines?)?")
_FOUND = re.compile(r"# (\d+) match(?:es)? in (\d+) files?(, truncated.*)?")
_MATCH = re.compile(r"(?P<path>.+?):(?P<line>\d+):(?P<text>.*)")
_RPC = re.compile(r"\s*rpc\s+(?P<name>\w+)")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One line of list_files."""

    path: str
    size_bytes: int
    lines: int | None
    """None: not asked for, or a binary file."""

    @property
    def ending(self) -> str:
        """Its ending with the dot; empty when it has none."""
        return PurePosixPath(self.path).suffix


@dataclass(slots=True)
class Listing:
    """An answer of list_files."""

    files: list[ListedFile] = field(default_factory=list)
    total_files: int = 0
    total_bytes: int = 0
    total_lines: int = 0
    is_whole: bool = False
    """Every file is listed. False as well when the answer itself was cut, so that its totals are missing."""
    has_totals: bool = False


def read_listing(content: str) -> Listing:
    """Read list_files' answer; lines that are none of its own are passed over."""
    listing = Listing()
    cut = False
    for line in content.split("\n"):
        totals = _TOTALS.fullmatch(line)
        fields = line.rsplit("\t", 2)
        if totals:
            listing.has_totals = True
            listing.total_files, listing.total_bytes = int(totals[1]), int(totals[2])
            listing.total_lines = int(totals[3] or 0)
        elif line.startswith("# truncated"):
            cut = True
        elif len(fields) == 3 and fields[1].isdecimal():
            lines = int(fields[2]) if fields[2].isdecimal() else None
            listing.files.append(ListedFile(fields[0], int(fields[1]), lines))
        elif len(fields) == 2 and fields[1].isdecimal():
            listing.files.append(ListedFile(fields[0], int(fields[1]), None))
    listing.is_whole = listing.has_totals and not cut and len(listing.files) == listing.total_files
    return listing


@dataclass(frozen=True, slots=True)
class Rpc:
    """One rpc line of a proto file."""

    path: str
    name: str
    comment: str
    """The comment lines right above it, joined by spaces; empty when there are none."""


@dataclass(slots=True)
class Found:
    """An answer of search_files."""

    matches: int = 0
    files: int = 0
    is_whole: bool = False


def read_found(content: str) -> Found:
    """Read the totals that end search_files' answer."""
    lines = content.rstrip("\n").split("\n")[-3:]
    found = next((found for line in lines if (found := _FOUND.fullmatch(line))), None)
    if found is None:
        return Found()
    is_whole = found[3] is None and not any(line.startswith("# truncated") for line in lines)
    return Found(int(found[1]), int(found[2]), is_whole)


def read_rpcs(content: str) -> list[Rpc]:
    """Read rpc lines and the comments above them from search_files' answer with context, in its order."""
    rpcs: list[Rpc] = []
    for group in re.split(r"^--$", content, flags=re.MULTILINE):
        lines = [line for line in group.split("\n") if line and not line.startswith("# ")]
        # A group is of one file, whose path only a match line names without doubt.
        named = next((found for line in lines if (found := _MATCH.fullmatch(line)) and _RPC.match(found["text"])), None)
        if named is not None:
            rpcs.extend(_rpcs_of(named["path"], lines))
    return rpcs


def _rpcs_of(path: str, lines: list[str]) -> list[Rpc]:
    rpcs: list[Rpc] = []
    comment: list[str] = []
    place = re.compile(re.escape(path) + r"[:-]\d+[:-](?P<text>.*)")
    for line in lines:
        found = place.fullmatch(line)
        text = found["text"].strip() if found else ""
        rpc = _RPC.match(text)
        if rpc:
            rpcs.append(Rpc(path, rpc["name"], " ".join(comment)))
            comment = []
        elif text.startswith("//"):
            comment.append(text.lstrip("/ "))
        else:
            comment = []
    return rpcs
