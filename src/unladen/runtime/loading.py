"""Copies weights into memory with several threads, and reports the progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.backends._host import advise, file_of, give_back
from unladen.backends._system import this_system
from unladen.backends.base import Backend, Buffer
from unladen.quants.tiles import ROWS, Packer
from unladen.types import LoadProgress

PIECE_BYTES: Final = 16 << 20
"""Bytes of one copy: with much larger copies, a backend may have to wait for the device within
one."""

AHEAD_BYTES: Final = 64 << 20
"""How many bytes ahead of the copy the disk is asked to read."""

N_COPIERS: Final = 4
"""Threads that copy weights: a few saturate memory, and disks are faster with several requests."""

MOST_PACKERS: Final = 8
"""The most threads that bring weights into a device's order: more of them wait for memory."""

INTERVAL_S: Final = 0.05
"""Seconds between two calls of ``progress``."""

Bytes = npt.NDArray[np.uint8]


class Report:
    """Counts the bytes that are loaded, and calls ``progress`` with their number."""

    def __init__(self, total_bytes: int, progress: Callable[[LoadProgress], object] | None) -> None:
        self._total = total_bytes
        self._progress = progress
        self._done = 0
        self._start = self._told = time.perf_counter()

    def add(self, n_bytes: int) -> None:
        """Count ``n_bytes`` more."""
        self._done += n_bytes
        now = time.perf_counter()
        if self._progress and (now - self._told >= INTERVAL_S or self._done == self._total):
            self._told = now
            self._progress(LoadProgress(self._done, self._total, now - self._start))


def fill(backend: Backend, buffer: Buffer, data: Bytes, *, is_host: bool) -> None:
    """Copy ``data``, uint8 [n], to the start of ``buffer``. Pages of a mapped file go back to the
    system once they are copied."""
    _in_pieces(data, PIECE_BYTES, lambda piece, start: backend.write(buffer, piece, start),
               is_host=is_host)


def fill_packed(backend: Backend, buffer: Buffer, rows: Bytes, packer: Packer, *, is_host: bool
                ) -> None:
    """Write the tiles that ``packer`` makes of ``rows``, uint8 [n_rows, row_bytes], to the start of
    ``buffer``, like :func:`fill`. There is no second copy of the rows in the host's memory."""
    n_threads = min(MOST_PACKERS, this_system().n_cores())
    bands = max(1, PIECE_BYTES // packer.band_bytes) * ROWS

    def write(some: Bytes, first: int) -> None:
        part = replace(packer, n_rows=len(some))
        backend.write_made(buffer, some.size, lambda out, start: part.pack(
            some, out, start, n_threads), first * packer.row_bytes, unit=part.tile_bytes)
    _in_pieces(rows, bands, write, is_host=is_host)


def _in_pieces(data: Bytes, length: int, write: Callable[[Bytes, int], None], *, is_host: bool
               ) -> None:
    """Call ``write`` with ``length`` entries of ``data`` at a time, and the first one's number."""
    file = file_of(data)
    ahead = -(-AHEAD_BYTES // (length * data[:1].nbytes)) * length if data.size else 0

    def copy(start: int) -> None:
        piece = data[start:start + length]
        if file is not None:
            advise(data[start + ahead:start + ahead + length].reshape(-1), "WILLNEED")
        write(piece, start)
        if file is not None:
            give_back(file, piece.reshape(-1))
    starts = range(0, len(data), length)
    if not is_host or len(starts) < 2:
        for start in starts:
            copy(start)
        return
    copiers = ThreadPoolExecutor(min(N_COPIERS, len(starts)))
    try:
        for done in [copiers.submit(copy, start) for start in starts]:
            done.result()
    finally:  # after an interrupt no thread may write to memory that is freed
        copiers.shutdown(cancel_futures=True)
