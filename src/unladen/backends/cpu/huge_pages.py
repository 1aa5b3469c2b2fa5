"""Weights of a mapped file, moved into huge pages a little after each step.

What the system read from the disk for another program lies in its cache in pages of 4 KiB, whose
addresses cost a core a fifth of what it can read. Weights that a program reads over and over are
therefore copied, at their own addresses. Then they are this process's own: they count as memory
that can't be had back, which is why there must be plenty.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from unladen._native import cpu as native
from unladen.backends._host import file_of, free_host_bytes, host
from unladen.backends.base import Segment
from unladen.types import FileMapping

log = logging.getLogger("unladen")

N_STEPS_BEFORE: Final = 4
"""Who takes no more than these steps doesn't get it back."""

PIECE_BYTES: Final = 16 << 20
"""Moved after a step: 3 ms, or ten times that in a virtual machine that must first get the memory
from its host."""

PAUSE: Final = 7
"""So many times as long nothing is moved after that."""

SPARE_FACTOR: Final = 2
"""So many times what is moved must be free before."""

VARIABLE: Final = "UNLADEN_HUGE_PAGES"
SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SMAPS: Final = Path("/proc/self/smaps")
CGROUPS: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes ``first`` to ``last`` of this process's addresses, of ``file``."""

    file: FileMapping
    first: int
    last: int


class Moving:
    """What is to be moved of what ``segment`` reads in every step."""

    def __init__(self, segment: Segment) -> None:
        self._wanted = stretches(segment)
        self._pieces: Iterator[Callable[[], object]] | None = None
        self._n_steps = 0
        self._resume = 0.0

    def after_step(self) -> None:
        """Perhaps move a piece."""
        self._n_steps += 1
        start = time.perf_counter()
        if self._n_steps <= N_STEPS_BEFORE or start < self._resume:
            return
        self._move()
        now = time.perf_counter()
        self._resume = now + PAUSE * (now - start)

    def finish(self) -> None:
        """Move all that is left."""
        while self._move():
            pass

    def _move(self) -> bool:
        """Whether there was any."""
        if self._pieces is None:
            self._pieces = _pieces(self._wanted) if is_worth_it(self._wanted) else iter(())
        move = next(self._pieces, None)
        if move is None:
            return False
        try:
            move()
        except OSError as error:
            log.debug("weights stay in small pages: %s", error)
            self._pieces = iter(())
        return True


def _pieces(wanted: Iterable[Stretch]) -> Iterator[Callable[[], object]]:
    for stretch in wanted:
        for at in range(stretch.first, stretch.last, PIECE_BYTES):
            yield functools.partial(_move, stretch.file, at, min(PIECE_BYTES, stretch.last - at))


def _move(file: FileMapping, at: int, n_bytes: int) -> None:
    with file.guard:
        file.is_replaced = True
        native.copy_into_huge_pages(at, n_bytes)


def stretches(segment: Segment) -> list[Stretch]:
    """The whole huge pages that matrices lie in, small gaps between these included; without those
    of which only rows are picked."""
    found: list[Stretch] = []
    matrices = {w.name for node in segment.nodes if node.op != "embed"
                for w in node.weights.values() if len(w.shape) > 1}
    for name in matrices:
        placed = segment.weights[name]
        buffer = host(placed.buffer)
        file, first = file_of(buffer.data), buffer.address + placed.offset
        if file is not None and not file.is_replaced:
            found.append(Stretch(file, first, first + placed.weight.nbytes_in(placed.quant)))
    size = native.HUGE_PAGE_BYTES
    whole = [Stretch(s.file, -(-s.first // size) * size, s.last // size * size)
             for s in _joined(sorted(found, key=lambda s: s.first), size)]
    return [s for s in whole if s.first < s.last]


def _joined(sorted_ones: Iterable[Stretch], gap: int) -> Iterator[Stretch]:
    last: Stretch | None = None
    for one in sorted_ones:
        if last is not None and last.file is one.file and one.first - last.last < gap:
            last = Stretch(last.file, last.first, max(last.last, one.last))
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def is_worth_it(wanted: list[Stretch]) -> bool:
    """Whether they are in small pages, not locked there, and memory is plentiful."""
    if os.environ.get(VARIABLE) == "0":
        return False
    n_bytes = sum(s.last - s.first for s in wanted)
    if not SETTING.exists() or "[never]" in SETTING.read_text() or not SMAPS.exists():
        return False
    mapped = _mapped(SMAPS.read_text(), wanted)
    if mapped.is_locked or 2 * mapped.huge_bytes > n_bytes:
        return False
    return min(free_host_bytes(), _free_in_groups(CGROUPS)) >= SPARE_FACTOR * n_bytes


@dataclass(frozen=True, slots=True)
class _Mapped:
    huge_bytes: int
    is_locked: bool


def _mapped(smaps: str, wanted: list[Stretch]) -> _Mapped:
    huge, is_locked, counts = 0, False, False
    for line in smaps.splitlines():
        key, _, value = line.partition(":")
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            first, last = (int(n, 16) for n in head.groups())
            counts = any(s.first < last and first < s.last for s in wanted)
        elif counts and key in ("FilePmdMapped", "AnonHugePages"):
            huge += int(value.split()[0]) * 1024
        elif counts and key == "VmFlags":
            is_locked = is_locked or "lo" in value.split()
    return _Mapped(huge, is_locked)


def _free_in_groups(root: Path) -> int:
    """The least that any control group above this process leaves; what the system's cache holds of
    it counts as used."""
    free = 1 << 62
    own = Path("/proc/self/cgroup")
    for line in own.read_text().splitlines() if own.exists() else ():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        base, names = ((root, ("memory.max", "memory.current")) if not controllers else
                       (root / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")))
        folder = base / path.strip("/")
        while folder.is_relative_to(base):
            limit, used = (_number(folder / name) for name in names)
            if limit is not None and used is not None:
                free = min(free, limit - used)
            folder = folder.parent
    return free


def _number(path: Path) -> int | None:
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text.isdecimal() else None
