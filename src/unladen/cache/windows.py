"""Cache blocks of layers that see a window of the last tokens: they have tables of their own.

A sequence gives such a block back soon after its later tokens no longer see the tokens in it. A
block is found by the block of whole sequences that holds the same tokens in the other layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from unladen.cache.counted import CountedBlocks

RESERVE = 4
"""Blocks that a sequence may hold beside those of a whole window: the window and the next tokens
begin within blocks, which takes one each, and two blocks are kept to go back by."""


def most_blocks(window: int, block_tokens: int) -> int:
    """How many blocks of ``block_tokens`` tokens one sequence holds at most of a layer that sees
    ``window`` tokens, but for whole blocks of tokens that a step writes."""
    return -(-window // block_tokens) + RESERVE


class WindowPool(CountedBlocks):
    """``n_blocks`` blocks of layers whose tokens see the last ``window`` tokens, their own among
    them."""

    def __init__(self, window: int, n_blocks: int) -> None:
        super().__init__(n_blocks)
        self.window = window
        self._beside: dict[int, int] = {}  # block of whole sequences -> block of the window
        self._known_by: dict[int, int] = {}  # block of the window -> block of whole sequences
        self._found: set[int] = set()  # known blocks that a second sequence has used

    def is_known(self, block: int) -> bool:
        """Whether :meth:`find` gives ``block``."""
        return block in self._known_by

    def is_shared(self, block: int) -> bool:
        """Whether ``block`` must keep its content: it has a second user, or is known."""
        return self.n_users(block) > 1 or self.is_known(block)

    def keep(self, whole: int, block: int) -> None:
        """Let :meth:`find` give ``block`` for the block ``whole`` of the same tokens, unless it
        gives another one already."""
        if whole not in self._beside and not self.is_known(block):
            self._beside[whole] = block
            self._known_by[block] = whole

    def find(self, whole: int) -> int | None:
        """The known block that has the tokens of the block ``whole``; None: there is none."""
        return self._beside.get(whole)

    def adopt(self, block: int) -> None:
        """One more user of ``block``, which :meth:`find` gave. What is found once is likely to be
        found again, so it is kept like the end of a sequence."""
        self.share(block)
        self._found.add(block)

    def release(self, block: int, *, passed: bool = False) -> None:
        """As in :class:`CountedBlocks`."""
        super().release(block, passed=passed and block not in self._found)

    def forget(self, block: int) -> None:
        """Make ``block`` unknown, because its content is about to change."""
        whole = self._known_by.get(block)
        if whole is not None:
            self.drop(whole)

    def drop(self, whole: int) -> None:
        """Make the block with the tokens of the block ``whole`` unknown."""
        block = self._beside.pop(whole, None)
        if block is not None:
            del self._known_by[block]
            self._found.discard(block)
            self._free_idle(block)


CopyWindow = Callable[[int, int], None]
"""``copy(target, source)`` copies a block in the layers of a window."""


@dataclass(slots=True)
class WindowTable:
    """A sequence's blocks of ``size`` tokens in ``pool``, from the block at ``first`` on.

    ``row`` int32 [max_blocks] is the table that kernels read. Entries before ``first`` name a block
    that the sequence holds, because kernels may read keys there before they hide them.
    """

    pool: WindowPool
    size: int
    copy: CopyWindow
    row: npt.NDArray[np.int32]
    first: int = 0
    n: int = 0

    @property
    def end(self) -> int:
        """The index after the last block."""
        return self.first + self.n

    def first_needed(self, length: int) -> int:
        """The index of the first block that a token behind ``length`` others sees."""
        return max(0, length - self.pool.window + 1) // self.size

    @property
    def blocks(self) -> npt.NDArray[np.int32]:
        """int32 [n]: the blocks that the sequence holds; a view."""
        held: npt.NDArray[np.int32] = self.row[self.first:self.end]
        return held

    def holds(self, length: int) -> bool:
        """Whether a sequence of ``length`` tokens can go on with these blocks."""
        return self.first <= self.first_needed(length)

    def n_missing(self, length: int, n_tokens: int) -> int:
        """Blocks that :meth:`reserve` would take from the pool."""
        needed = max(0, -(-n_tokens // self.size) - self.end)
        index, n_written = divmod(length, self.size)
        shared = n_written and self.pool.n_users(int(self.row[index])) > 1
        return needed + bool(shared)

    def reserve(self, length: int, n_tokens: int) -> bool:
        """Make room so that rows from ``length`` to ``n_tokens`` can be written; False where the
        pool is exhausted."""
        index, n_written = divmod(length, self.size)
        if n_written and not self._own(index):
            return False
        while self.end * self.size < n_tokens:
            block = self.pool.take()
            if block is None:
                return False
            self._append(block)
        return True

    def settle(self, length: int, end: int) -> None:
        """Give back what no token behind ``length`` others sees, except two blocks: a session goes
        on from its last token but one, and a prompt from the end of the block before. What is
        needed to go on behind ``end`` tokens doesn't count as passed."""
        first = self._first_kept(length)
        if first > self.first:
            n = min(first - self.first, self.n)
            kept = range(self._first_kept(end), -(-end // self.size))
            for i in range(self.first, self.first + n):
                self.pool.release(int(self.row[i]), passed=i not in kept)
            self.first, self.n = first, self.n - n
            if self.n:
                self.row[:first] = self.row[first]

    def _first_kept(self, length: int) -> int:
        return self.first_needed(max(0, length - 2 * self.size))

    def cut(self, length: int) -> None:
        """Give back what lies beyond ``length`` tokens."""
        while self.n and self.end > -(-length // self.size):
            self.n -= 1
            self.pool.release(int(self.row[self.end]))
        self.first = min(self.first, -(-length // self.size))

    def n_known(self, whole: Sequence[int], n: int) -> int:
        """``n`` where the window still has every block that a token after the first ``n`` blocks of
        ``whole`` sees. Else the index of the last block that is missing: a sequence can go on from
        that many blocks at most."""
        for i in range(n - 1, self.first_needed((n - 1) * self.size + 1) - 1, -1):
            if self.pool.find(whole[i]) is None:
                return i
        return n

    def adopt(self, whole: Sequence[int]) -> None:
        """Hold what a token after the blocks ``whole`` sees; :meth:`n_known` must have found all of
        it."""
        first = self.first_needed((len(whole) - 1) * self.size + 1) if whole else 0
        found = [self.pool.find(block) for block in whole[first:]]
        for block in found:
            assert block is not None
            self.pool.adopt(block)
        self.cut(0)
        self.first = first
        for block in found:
            assert block is not None
            self._append(block)
        if self.n:
            self.row[:first] = self.row[first]

    def fork(self, row: npt.NDArray[np.int32]) -> WindowTable:
        """A second table with the same blocks, in ``row``."""
        for block in self.blocks:
            self.pool.share(int(block))
        row[:self.end] = self.row[:self.end]
        return WindowTable(self.pool, self.size, self.copy, row, self.first, self.n)

    def _append(self, block: int) -> None:
        self.row[self.end] = block
        self.n += 1

    def _own(self, index: int) -> bool:
        """Make the block at ``index``, about to be written, this sequence's alone."""
        block = int(self.row[index])
        if not self.pool.is_shared(block):
            return True
        is_mine = self.pool.n_users(block) == 1
        fresh = self.pool.take()
        if fresh is None:
            if is_mine:
                self.pool.forget(block)
            return is_mine
        self.copy(fresh, block)
        self.pool.release(block)
        self.row[index] = fresh
        if index == self.first:
            self.row[:index] = fresh
        return True
