"""Log files of bounded size."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

MAX_BYTES = 16 * 1024 * 1024


def keep_bounded(log: Path, limit: int = MAX_BYTES) -> bool:
    """Move a log that has grown past the limit into "<name>.1", replacing the one before; True if it did.

    The file itself is emptied, not replaced: its writers append and keep their descriptor.
    """
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > limit:
            with contextlib.suppress(OSError):  # on a full disk it is lost, and leaves room
                shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
            return True
    return False
