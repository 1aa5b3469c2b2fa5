"""Copies weights into memory with several threads, and reports the progress."""

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
"""Bytes of one copy: with much larger copies, a backend may have to wait for the device within
one."""

AHEAD_BYTES: Final = 64 << 20
"""How many bytes ahead of the copy the disk is asked to read."""

N_COPIERS: Final = 4
"""Threads that copy weights: a few saturate memory, and disks are faster with several requests."""

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
    """Copy ``data`` to the start of ``buffer``. Pages of a mapped file go back to the system once
    they are copied."""
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
    finally:  # after an interrupt no thread may write to memory that is freed
        copiers.shutdown(cancel_futures=True)
