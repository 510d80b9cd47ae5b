"""What a tool that takes its time owes to the runner meanwhile."""

from __future__ import annotations

from typing import Protocol


class Attention(Protocol):
    """Given to such tools by the worker. They wait for its descriptor beside their own, and attend when it stirs."""

    def fileno(self) -> int:
        """A descriptor that is readable when the runner has said something."""
        ...

    def attend(self) -> None:
        """Take what the runner has said. Raises Stopped for a cancel, ChannelClosed when the runner is gone.

        To be called once before the first wait, too: a line may have been read already.
        """
        ...
