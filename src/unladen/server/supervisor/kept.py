"""Files in which workers keep conversations for the next worker of the same model."""

from __future__ import annotations

import os
import sys
import tempfile


def open_kept() -> int | None:
    """The file descriptor of a new file without a name, which nothing else can open and which is
    gone with the last process that has it; None where a worker can't be given one."""
    if sys.platform == "win32":
        return None
    with tempfile.TemporaryFile(prefix="unladen-") as file:
        return os.dup(file.fileno())


def close_kept(kept: int | None) -> None:
    """Give up what :func:`open_kept` opened."""
    if kept is not None:
        os.close(kept)
