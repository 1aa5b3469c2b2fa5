"""What processes take: memory and files, as Linux tells it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def family(process: int) -> list[int]:
    """The process and those below it."""
    found = [process]
    for each in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return [*dict.fromkeys(found)]


def memory(process: int) -> int:
    """Bytes that the process has written to: what it shares or could read again isn't counted."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise ValueError("the system doesn't tell what memory a process has")


def files(process: int) -> int:
    """Files that the process has open."""
    return len(os.listdir(f"/proc/{process}/fd"))


def by_process(process: int) -> dict[int, tuple[int, int]]:
    """Bytes and files of the process and of those below it, by their numbers."""
    found = {}
    for each in family(process):
        with contextlib.suppress(OSError):  # it ended just now
            found[each] = memory(each), files(each)
    return found
