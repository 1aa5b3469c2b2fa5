"""Moves weights of a mapped file to memory that is read faster, a few of them after each step.

Where the processor's kernels read interleaved or divided rows, rows are copied in this layout, and
the file's pages are given back to the system. With interleaved rows, a step of eight sequences
takes two thirds of the time. Other weights move to huge pages at the same addresses: the system's
file cache has pages of 4 KiB, and translating their addresses costs a core a fifth of its reading
speed.

Moved weights are this process's own memory, which the system can't take back as it can take pages
of a file. So weights move only where memory is plentiful.

If a copy on disk has the interleaved rows of an earlier run (:mod:`unladen.storage.packed`), the
first step already uses them, and they move to huge pages as other weights do.
"""

from __future__ import annotations

import functools
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from unladen._native import cpu as native
from unladen.backends import _cgroups as cgroups
from unladen.backends._host import advise, file_of, free_host_bytes, give_back, host
from unladen.backends.base import Segment
from unladen.storage.mapping import FileMapping
from unladen.storage.packed import Packed, PackedCache, Rows

log = logging.getLogger("unladen")

N_STEPS_BEFORE: Final = 4
"""Steps before weights move; a shorter run would not earn the move back."""

PIECE_BYTES: Final = 16 << 20
"""Bytes to move after a step. They take 3 ms, or 30 ms in a virtual machine that must first get the
memory from its host."""

PAUSE: Final = 3
"""After a move, pause for this multiple of its duration."""

SPARE_FACTOR: Final = 2
"""Weights move only where this multiple of their bytes is free."""

VARIABLE: Final = "UNLADEN_HUGE_PAGES"
"""The environment variable whose value 0 keeps weights from moving."""
SETTING: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux's file that says whether there are huge pages."""
SMAPS: Final = Path("/proc/self/smaps")
"""Linux's file that says which memory of this process is in huge pages, or locked. Reading it takes
milliseconds, or a tenth of a second in a process with thousands of mappings."""
STATUS: Final = Path("/proc/self/status")
"""Linux's file that says how much memory this process has locked."""
CGROUPS: Final = Path("/sys/fs/cgroup")
"""The folder of control groups, whose limits count the memory of moved weights."""


class Stretch(NamedTuple):
    """A part of ``file`` that is mapped at the addresses ``first`` to ``last``.

    ``is_dense``: every step reads all of this part.
    """

    file: FileMapping
    first: int
    last: int
    is_dense: bool = True


class Interleaving(Protocol):
    """The methods of ``native.Interleaving``."""

    def wanted(self) -> list[tuple[int, int]]:
        """Addresses and bytes of rows that kernels want interleaved."""
        ...

    def start(self, addresses: list[int]) -> None:
        """Allocate memory for the rows at ``addresses``. Raises OSError."""
        ...

    def advance(self, n_bytes: int) -> list[tuple[int, int]]:
        """Copy the next rows, about ``n_bytes``. Returns addresses and bytes of the copied rows."""
        ...

    def layout(self, address: int, /) -> tuple[int, int, int]:
        """For the rows at ``address``: bytes of a row, bytes of its second part, and how many known
        numbers ``pack`` makes."""
        ...

    def pack(self, address: int, to: npt.NDArray[np.uint8], known: npt.NDArray[np.float32], /
             ) -> None:
        """Pack all rows at ``address`` into ``to``, and their known numbers into ``known``."""
        ...

    def adopt(self, address: int, to: npt.NDArray[np.uint8], known: npt.NDArray[np.float32], /
              ) -> None:
        """Use the packed rows ``to`` and their numbers ``known`` for the rows at ``address``. Both
        arrays must stay alive."""
        ...


class Moving:
    """Moves the weights that every step of ``segment`` reads.

    ``interleaving`` belongs to the segment's program, whose kernels are those of ``level``.
    """

    def __init__(self, interleaving: Interleaving, segment: Segment, level: str) -> None:
        self._interleaving = interleaving
        self._copied, self._moved = stretches(segment, interleaving.wanted())
        cache = segment.options.packed_cache
        self._kept = adopt(cache, interleaving, self._copied, level) if cache else []
        if self._kept:
            self._copied = []
            self._moved += _whole(self._kept)
        self._pieces: Iterator[Callable[[], object]] | None = (
            iter(()) if segment.is_brief else None)
        self._n_left = sum(s.last - s.first for s in self._copied)  # bytes to interleave
        self._n_steps = 0
        self._resume = 0.0

    def after_step(self) -> None:
        """Move a piece, unless it is too early or the pause isn't over."""
        self._n_steps += 1
        start = time.perf_counter()
        if self._n_steps <= N_STEPS_BEFORE or start < self._resume:
            return
        if not self._move():
            self._resume = math.inf
            return
        now = time.perf_counter()
        self._resume = now + PAUSE * (now - start)

    def finish(self) -> None:
        """Move everything that is left."""
        while self._move():
            pass

    def _move(self) -> bool:
        """Move the next piece. Returns whether there was one."""
        if self._pieces is None:
            self._pieces = self._all_pieces()
        move = next(self._pieces, None)
        if move is None:
            return False
        try:
            move()
        except OSError as error:
            log.debug("weights stay where they are: %s", error)
            self._pieces = iter(())
        return True

    def _all_pieces(self) -> Iterator[Callable[[], object]]:
        if not may_move(self._copied + self._moved):
            return
        if self._copied:
            yield lambda: self._interleaving.start([s.first for s in self._copied])
        while self._n_left:
            yield self._interleave
        if are_small(self._moved):
            yield from _pieces(self._moved)

    def _interleave(self) -> None:
        for first, n_bytes in self._interleaving.advance(PIECE_BYTES):
            file = next(s.file for s in self._copied if s.first <= first < s.last)
            _let_go(file, first, n_bytes)
            self._n_left -= n_bytes


def _let_go(file: FileMapping, first: int, n_bytes: int) -> None:
    data = np.frombuffer(file, np.uint8)
    at = first - int(data.ctypes.data)
    rows = data[at:at + n_bytes]
    # Without this advice, a read of a norm next to the rows would map a whole huge page again.
    advise(rows, "NOHUGEPAGE")
    give_back(file, rows)


def adopt(cache: PackedCache, interleaving: Interleaving, copied: Sequence[Stretch], level: str
          ) -> list[Stretch]:
    """Use packed rows of ``copied`` from ``cache``, which packs them now if it doesn't have them.

    Returns their places in the copy; none where ``copied`` is empty or the cache has no room.
    """
    if not copied:
        return []
    wanted = [_rows(one, *interleaving.layout(one.first)) for one in copied]
    room = np.empty(max(rows.n_bytes for rows in wanted), np.uint8)

    def pack(i: int) -> Packed:
        rows, known = room[:wanted[i].n_bytes], np.empty(wanted[i].n_known, np.float32)
        interleaving.pack(copied[i].first, rows, known)
        return Packed(rows.data, known.data)
    found = cache.get(wanted, f"{level}-{native.PACKED_LAYOUT}", pack)
    if found is None:
        return []
    file, kept = found[0], []
    for one, packed in zip(copied, found[1], strict=True):
        rows = np.asarray(packed.rows)
        interleaving.adopt(one.first, rows, np.asarray(packed.known))
        _let_go(one.file, one.first, one.last - one.first)
        first = int(rows.ctypes.data)
        kept.append(Stretch(file, first, first + rows.nbytes, one.is_dense))
    return kept


def _rows(one: Stretch, row_bytes: int, rest_bytes: int, n_known: int) -> Rows:
    offset = one.first - int(np.frombuffer(one.file, np.uint8).ctypes.data)
    return Rows(*one.file.identity, offset, one.last - one.first, row_bytes, rest_bytes, n_known,
                int(one.is_dense))


def _pieces(wanted: Iterable[Stretch]) -> Iterator[Callable[[], object]]:
    for stretch in wanted:
        for at in range(stretch.first, stretch.last, PIECE_BYTES):
            yield functools.partial(_move, stretch.file, at, min(PIECE_BYTES, stretch.last - at))


def _move(file: FileMapping, at: int, n_bytes: int) -> None:
    with file.guard:
        file.is_replaced = True
        native.copy_into_huge_pages(at, n_bytes)


def stretches(segment: Segment, to_interleave: Iterable[tuple[int, int]]
              ) -> tuple[list[Stretch], list[Stretch]]:
    """The stretches to copy interleaved, and those to move to huge pages.

    The first are those of ``to_interleave`` (addresses and bytes of rows) that are in mapped files.
    The second are whole huge pages with the segment's other matrices and small gaps between them.
    Matrices of which a step reads single rows are left out.
    """
    found: list[Stretch] = []
    matrices = {w.name for node in segment.nodes if node.op != "embed"
                for w in node.weights.values() if len(w.shape) > 1}
    for name in matrices:
        placed = segment.weights[name]
        buffer = host(placed.buffer)
        file, first = file_of(buffer.data), buffer.address + placed.offset
        if file is not None and not file.is_replaced:
            found.append(Stretch(file, first, first + placed.weight.nbytes_in(placed.quant),
                                 len(placed.weight.shape) < 3))
    by_address = {s.first: s for s in found}
    copied = [by_address[first]._replace(last=first + n_bytes)
              for first, n_bytes in to_interleave if first in by_address]
    others = by_address.keys() - {s.first for s in copied}
    return copied, _whole(by_address[first] for first in others)


def _whole(wanted: Iterable[Stretch]) -> list[Stretch]:
    """The whole huge pages that ``wanted`` fill, including small gaps between them."""
    size = native.HUGE_PAGE_BYTES
    whole = [Stretch(s.file, -(-s.first // size) * size, s.last // size * size)
             for s in _joined(sorted(wanted, key=lambda s: s.first), size)]
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


def may_move(wanted: list[Stretch]) -> bool:
    """Whether ``wanted`` may move: memory is plentiful, and none of them is locked."""
    if not wanted or os.environ.get(VARIABLE) == "0" or not SMAPS.exists():
        return False
    n_bytes = sum(s.last - s.first for s in wanted)
    free = min(free_host_bytes(), cgroups.free_bytes(CGROUPS, cache_is_free=False))
    return free >= SPARE_FACTOR * n_bytes and not (_any_is_locked() and _mapped(wanted).is_locked)


def _any_is_locked() -> bool:
    """Whether this process has locked memory, or its status doesn't say."""
    for line in STATUS.read_text().splitlines():
        if line.startswith("VmLck:"):
            return int(line.split()[1]) > 0
    return True


def are_small(wanted: list[Stretch]) -> bool:
    """Whether most of ``wanted`` is in small pages, and the system has huge ones."""
    if not wanted or not SETTING.exists() or "[never]" in SETTING.read_text():
        return False
    n_bytes = sum(s.last - s.first for s in wanted)
    return 2 * _mapped(wanted).huge_bytes <= n_bytes


class _Mapped(NamedTuple):
    huge_bytes: int
    is_locked: bool


def _mapped(wanted: list[Stretch]) -> _Mapped:
    huge, is_locked, counts = 0, False, False
    end = max(s.last for s in wanted)
    with SMAPS.open() as lines:
        for line in lines:
            if not line[0].isupper():  # a range of addresses; the lines after it describe it
                first, last = (int(n, 16) for n in line.partition(" ")[0].split("-"))
                if first >= end:
                    break
                counts = any(s.first < last and first < s.last for s in wanted)
            elif counts:
                key, _, value = line.partition(":")
                if key in ("FilePmdMapped", "AnonHugePages"):
                    huge += int(value.split()[0]) * 1024
                elif key == "VmFlags":
                    is_locked = is_locked or "lo" in value.split()
    return _Mapped(huge, is_locked)
