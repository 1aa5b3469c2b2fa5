"""How weights come into memory: copied by several threads, told of on the way, kept there."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.backends._host import advise, file_of, give_back
from unladen.backends.base import Backend, Buffer
from unladen.types import LoadProgress

PIECE_BYTES: Final = 16 << 20
"""What is copied at once: a backend may wait for the device after much more."""

AHEAD_BYTES: Final = 64 << 20
"""How far before the copying a disk is asked for more."""

N_COPIERS: Final = 4
"""Threads that copy: a few saturate memory, and disks like several requests."""

INTERVAL_S: Final = 0.05
"""Between two reports."""

Bytes = npt.NDArray[np.uint8]


class Report:
    """Counts bytes, and tells ``progress`` of them."""

    def __init__(self, total_bytes: int, progress: Callable[[LoadProgress], object] | None) -> None:
        self._total = total_bytes
        self._progress = progress
        self._done = 0
        self._start = self._told = time.perf_counter()

    def add(self, n_bytes: int) -> None:
        """So many more are in place."""
        self._done += n_bytes
        now = time.perf_counter()
        if self._progress and (now - self._told >= INTERVAL_S or self._done == self._total):
            self._told = now
            self._progress(LoadProgress(self._done, self._total, now - self._start))


def fill(backend: Backend, buffer: Buffer, data: Bytes, *, is_host: bool) -> None:
    """Copy ``data`` to the start of ``buffer``; the source's pages are given back as they are done
    with, where they are those of a file."""
    file = file_of(data)

    def copy(start: int) -> None:
        piece = data[start:start + PIECE_BYTES]
        if file is not None:
            advise(data[start + AHEAD_BYTES:start + AHEAD_BYTES + PIECE_BYTES], "WILLNEED")
        backend.write(buffer, piece, start)
        if file is not None:
            give_back(file, piece)
    starts = range(0, data.nbytes, PIECE_BYTES)
    if not is_host or len(starts) < 2:
        for start in starts:
            copy(start)
        return
    copiers = ThreadPoolExecutor(min(N_COPIERS, len(starts)))
    try:
        for done in [copiers.submit(copy, start) for start in starts]:
            done.result()
    finally:  # an interrupt leaves no thread behind that writes to memory given back
        copiers.shutdown(cancel_futures=True)
