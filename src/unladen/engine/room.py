"""Whether the blocks of a window are enough for some sequences, each to be of an expected length.

A sequence that outgrows a window gives blocks back as it grows. It holds at most
:func:`~unladen.cache.windows.most_blocks`, and during a step the blocks that this step writes. A
sequence that doesn't outgrow it keeps its blocks, like those of whole sequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unladen.cache.windows import WindowPool, WindowTable, most_blocks


def n_for_window(window: WindowPool, tokens: Sequence[int], n_step: int, size: int) -> int:
    """Blocks of ``size`` tokens that sequences of ``tokens`` tokens hold at most at the same time
    where they share none. A step writes up to ``n_step`` tokens."""
    most = most_blocks(window.window, size)
    whole = [-(-n // size) for n in tokens]
    beyond = sum(max(0, n - most) for n in whole)
    return sum(min(n, most) for n in whole) + min(beyond, -(-n_step // size))


def has_window_room(window: WindowPool, sequences: Sequence[tuple[WindowTable, int, int]],
                    n_step: int) -> bool:
    """Whether ``window`` has blocks for all ``sequences`` at once: the table, the length and the
    expected length of each. A step writes up to ``n_step`` tokens."""
    due, returned = 0, Counter[int]()
    growing: list[int] = []
    size = 1
    for table, length, n_tokens in sequences:
        size = table.size
        if -(-n_tokens // size) > most_blocks(window.window, size):
            growing.append(n_tokens)
            returned.update(table.blocks.tolist())
        else:
            due += table.n_missing(length, n_tokens)
    due += n_for_window(window, growing, n_step, size)
    # Blocks that nobody else holds come back while these sequences grow.
    n_returned = sum(window.n_users(block) == n for block, n in returned.items())
    return due <= window.n_available + n_returned
