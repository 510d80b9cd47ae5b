"""What a person types into `netaclaw chat`: messages, and commands that begin with a slash."""

from __future__ import annotations

from dataclasses import dataclass

HELP = """\
/compact [INSTRUCTIONS]   sum up the older part of the conversation now
/tree                     show the conversation with its branches; entries are named by the start of their ids
/switch ENTRY             stand on an entry, or on root, before the first message; the next one continues from there
/summarize ENTRY [TEXT]   the same, and take along a summary of the branch that is left; TEXT says what matters
/fork [ENTRY]             go on in a copy of the conversation up to an entry
/think off|low|medium|high
/queue TEXT               send when the running turn has ended; a plain line enters it before its next step
/cancel [TASK]            cancel the running turn, or one subagent of it
/steer TASK TEXT          say something to a running subagent
/answer TEXT              answer the open question; a plain line does so as well, /answer allow|deny|always an approval
/usage                    tokens and cost of the conversation
/quit                     leave; a running turn goes on
A line that begins with two slashes is a message that begins with one. Ctrl-C cancels the turn, twice leaves."""

_LEVELS = ("off", "low", "medium", "high")
_NEEDS = {
    **dict.fromkeys(("tree", "usage", "help", "quit"), "nothing more"),
    **dict.fromkeys(("answer", "queue"), "a text"),
    "compact": "a text or nothing",
    "switch": "one id",
    "summarize": "one id and a text or nothing",
    **dict.fromkeys(("fork", "cancel"), "one id or nothing"),
    "steer": "a task and a text",
    "think": "off, low, medium or high",
}
"""What stands behind each word."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line taken apart."""

    name: str
    """`say` for a message, `wrong` for what cannot be done, else the word behind the slash."""
    text: str = ""
    """The message, instructions or level; for `wrong`: why, for people."""
    target: str = ""
    """The start of the id of an entry or task."""


def parse(line: str) -> Command | None:
    """The command that a line is; None for an empty one."""
    line = line.strip()
    if not line:
        return None
    if line.startswith("//"):
        return Command("say", line[1:])
    if not line.startswith("/"):
        return Command("say", line)
    name, _, rest = line[1:].partition(" ")
    rest = rest.strip()
    return (
        _command(name, rest) if name in _NEEDS else Command("wrong", f"there is no /{name}; /help lists what there is")
    )


def _command(name: str, rest: str) -> Command:
    needs = _NEEDS[name]
    first, _, text = rest.partition(" ")
    fits = {
        "nothing more": not rest,
        "a text": bool(rest),
        "a text or nothing": True,
        "one id": bool(rest) and not text,
        "one id or nothing": not text,
        "one id and a text or nothing": bool(rest),
        "a task and a text": bool(text.strip()),
        "off, low, medium or high": rest in _LEVELS,
    }
    if not fits[needs]:
        return Command("wrong", f"/{name} takes {needs}")
    if needs in ("a task and a text", "one id and a text or nothing"):
        return Command(name, text.strip(), first)
    if needs.startswith("one id"):
        return Command(name, target=rest)
    return Command(name, rest)


def named(start: str, ids: list[str]) -> str | None:
    """The one id that a word names by a part of its own; None when none does, or several do.

    Ids of one hour begin alike, so that any part of an id will do.
    """
    found = [each for each in ids if start in each]
    return found[0] if start and len(found) == 1 else None
