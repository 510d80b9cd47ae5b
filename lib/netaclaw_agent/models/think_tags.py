"""Reasoning that comes as text between tags, from servers that do not take it apart themselves."""

from __future__ import annotations


class ThinkTags:
    """Splits the answer's text into reasoning and answer, whatever cuts it arrives in.

    Only what stands at the very beginning is reasoning: a later tag is part of the answer, which may speak about tags.
    """

    def __init__(self, tag: str = "think", *, opened: bool = False) -> None:
        """`opened`: the prompt already held the opening tag, so that the answer begins inside. An empty tag: never
        split."""
        self._open = f"<{tag}>"
        self._close = f"</{tag}>"
        self._held = ""
        self._inside = opened and bool(tag)
        self._before = bool(tag)
        self._after = False

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """(is reasoning, text) in order. A tag's beginning at the end of the text is held back until it is clear."""
        if not (self._before or self._inside or self._after):
            return [(False, text)]
        text, self._held = self._held + text, ""
        pieces: list[tuple[bool, str]] = []
        if self._before:
            text = self._begin(text)
        if self._inside and text:
            text = self._within(text, pieces)
        if self._after and not self._inside:
            text = text.lstrip()  # the blank lines between reasoning and answer belong to neither
            self._after = not text
        if text and not (self._before or self._inside):
            pieces.append((False, text))
        return pieces

    def finish(self) -> list[tuple[bool, str]]:
        """What was held back turned out to be text."""
        held, self._held = self._held, ""
        self._before = False
        return [(self._inside, held)] if held else []

    def _begin(self, text: str) -> str:
        found = text.lstrip()
        if len(found) < len(self._open) and self._open.startswith(found):
            self._held = text
            return ""
        self._before = False
        if found.startswith(self._open):
            self._inside = True
            return found[len(self._open) :]
        return text

    def _within(self, text: str, pieces: list[tuple[bool, str]]) -> str:
        end = text.find(self._close)
        if end >= 0:
            self._inside, self._after = False, True
            if end:
                pieces.append((True, text[:end]))
            return text[end + len(self._close) :]
        kept = next((n for n in range(len(self._close) - 1, 0, -1) if text.endswith(self._close[:n])), 0)
        if kept:
            text, self._held = text[:-kept], text[-kept:]
        if text:
            pieces.append((True, text))
        return ""
