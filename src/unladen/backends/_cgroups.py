"""The limits that Linux's control groups set for containers and services."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
"""The folder of all control groups."""
OWN: Final = Path("/proc/self/cgroup")
"""The file that names the groups of this process."""
UNLIMITED: Final = 1 << 62
"""Bytes from which on a limit is none."""


def free_bytes(root: Path = ROOT, own: Path = OWN, *, cache_is_free: bool) -> int:
    """The fewest free bytes of the control groups that this process is in. Files that the system
    keeps in memory for a group count as used, unless ``cache_is_free``."""
    free = UNLIMITED
    for folder, is_v2 in _groups("memory", root, own):
        limit = _limit(folder, is_v2)
        if limit is None or limit >= UNLIMITED:  # version 1 writes a large number for no limit
            continue
        used = _number(folder / ("memory.current" if is_v2 else "memory.usage_in_bytes"))
        if used is not None:
            cached = _cached(folder, is_v2) if cache_is_free else 0
            free = min(free, max(0, limit - max(0, used - cached)))
    return free


def limit_bytes(root: Path = ROOT, own: Path = OWN) -> int:
    """The lowest limit, in bytes, of the control groups that this process is in."""
    limits = (_limit(folder, is_v2) for folder, is_v2 in _groups("memory", root, own))
    return min((limit for limit in limits if limit is not None), default=UNLIMITED)


def n_cpus(root: Path = ROOT, own: Path = OWN) -> int | None:
    """How many processors this process may use at a time, rounded up; the system stops more threads
    than that for a part of each period. None: no limit."""
    found = []
    for folder, is_v2 in _groups("cpu", root, own):
        names = ("cpu.max",) if is_v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = " ".join(_text(folder / name) for name in names).split()
        if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
            found.append(max(1, -(-int(words[0]) // int(words[1]))))
    return min(found, default=None)


def _groups(controller: str, root: Path, own: Path) -> Iterator[tuple[Path, bool]]:
    """The folders of the groups that this process is in, with their parents, and whether each is of
    version 2. A container may see its own group as the root, where its path doesn't exist."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            base = root
        elif controller in controllers.split(","):
            base = root / (controllers if (root / controllers).is_dir() else controller)
        else:
            continue
        folder = base / path.strip("/")
        while folder.is_relative_to(base):
            yield folder, not controllers
            folder = folder.parent


def _limit(folder: Path, is_v2: bool) -> int | None:
    # The system slows a group down while it is above memory.high, and ends it above memory.max.
    names = ("memory.max", "memory.high") if is_v2 else ("memory.limit_in_bytes",)
    found = [n for name in names if (n := _number(folder / name)) is not None]
    return min(found, default=None)


def _cached(folder: Path, is_v2: bool) -> int:
    names = ("active_file", "inactive_file")
    wanted = names if is_v2 else tuple(f"total_{name}" for name in names)
    total = 0
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in wanted and value.isdecimal():
            total += int(value)
    return total


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # the file doesn't exist or may not be read, so no limit is known
