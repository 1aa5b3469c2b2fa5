"""Bytes that tell what a backend keeps of them, and other threads."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np

N = 64
"""Bytes of :func:`watched`."""
Copies = list[weakref.ref[Any]]


class Watched(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes that tell which of their copies are still there."""

    copies: Copies

    def copy(self, order: Any = "C") -> Any:
        made = np.array(self, copy=True)
        self.copies.append(weakref.ref(made))
        return made


def watched(value: int, copies: Copies) -> Any:
    """:data:`N` bytes of this value; their copies are put into ``copies``."""
    found = np.full(N, value, np.uint8).view(Watched)
    found.copies = copies
    return found


def alive(copies: Copies) -> list[bool]:
    """Which copies are still there."""
    gc.collect()
    return [copy() is not None for copy in copies]


def elsewhere(work: Callable[[], object]) -> None:
    """Do ``work`` in another thread, which must not wait for a lock of this one."""
    thread = Thread(target=work)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the other thread waits for a lock"


def check_counting(gpu: Any, memory: Callable[[Any, int], object]) -> None:
    """Two threads allocate at the same time, and both sizes are counted."""
    kept: list[object] = []
    threads: list[Thread] = []

    class Slow(int):
        """While something is added to it, another thread allocates if it can."""

        def __add__(self, other: int) -> int:
            threads.append(Thread(target=lambda: kept.append(memory(gpu, 1 << 12))))
            threads[0].start()
            threads[0].join(1)
            return int(self) + other
    gpu.used_bytes = Slow(0)
    kept.append(memory(gpu, 1 << 10))
    threads[0].join()
    assert gpu.used_bytes == (1 << 10) + (1 << 12)
    kept.clear()
    assert gpu.used_bytes == 0
