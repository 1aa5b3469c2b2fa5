"""One sequence's part of the cache: a table of blocks that grows, forks and rolls back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from unladen.cache.blocks import NO_BLOCK, BlockPool

CopyBlock = Callable[[int, int], None]
"""``copy(target, source)``: the plan's :meth:`~unladen.schedule.plan.Plan.copy_block`."""


class CachedSequence:
    """Tokens whose keys and values are in the cache, and the blocks they lie in.

    ``length`` tokens are there. Before a step, :meth:`reserve` room; after it, :meth:`commit`.
    """

    def __init__(self, pool: BlockPool, copy: CopyBlock, max_blocks: int) -> None:
        self._pool = pool
        self._copy = copy
        self._blocks: list[int] = []
        self._n_published = 0
        self.length = 0
        self.table: npt.NDArray[np.int32] = np.zeros(max_blocks, np.int32)
        """int32 [max_blocks]: the block of each ``block_tokens`` tokens; beyond :attr:`n_blocks`
        meaningless."""

    @property
    def n_blocks(self) -> int:
        """Blocks held."""
        return len(self._blocks)

    def attach(self, tokens: Sequence[int]) -> int:
        """Adopt the longest known prefix of ``tokens``, whole blocks, but never all of it: the last
        token must be computed to know what follows. Returns how many tokens that is. The sequence
        must be empty."""
        assert not self._blocks
        size, before = self._pool.block_tokens, NO_BLOCK
        for start in range(0, len(tokens) - size, size):
            block = self._pool.find(before, tuple(tokens[start:start + size]))
            if block is None:
                break
            self._pool.share(block)
            self._append(block)
            before = block
        self.length = len(self._blocks) * size
        self._n_published = len(self._blocks)
        return self.length

    def reserve(self, n_tokens: int) -> bool:
        """Make room so that the next rows up to ``n_tokens`` in all can be written; False where the
        pool is exhausted (what was reserved stays). A block that is shared and would be written is
        copied first."""
        size = self._pool.block_tokens
        if self.length % size and not self._own(self.length // size):
            return False
        while len(self._blocks) * size < n_tokens:
            block = self._pool.take()
            if block is None:
                return False
            self._append(block)
        return True

    def n_missing(self, n_tokens: int) -> int:
        """Blocks that :meth:`reserve` would take from the pool."""
        size = self._pool.block_tokens
        needed = -(-n_tokens // size) - len(self._blocks)
        partial = self.length % size
        shared = partial and self._pool.n_users(self._blocks[self.length // size]) > 1
        return max(0, needed) + bool(shared)

    def commit(self, tokens: Sequence[int], length: int) -> None:
        """The first ``length`` of the sequence's ``tokens`` are now in the cache."""
        self.length = length
        size = self._pool.block_tokens
        while (self._n_published + 1) * size <= length:
            i = self._n_published
            before = self._blocks[i - 1] if i else NO_BLOCK
            self._pool.publish(self._blocks[i], before, tuple(tokens[i * size:(i + 1) * size]))
            self._n_published += 1

    def fork(self) -> CachedSequence:
        """A second sequence with the same past; blocks are shared until one of them writes."""
        other = CachedSequence(self._pool, self._copy, len(self.table))
        for block in self._blocks[:-(-self.length // self._pool.block_tokens)]:
            self._pool.share(block)
            other._append(block)
        other.length, other._n_published = self.length, self._n_published
        return other

    def truncate(self, length: int) -> None:
        """Forget what lies beyond the first ``length`` tokens."""
        assert 0 <= length <= self.length
        size = self._pool.block_tokens
        while len(self._blocks) > -(-length // size):
            self._pool.release(self._blocks.pop())
        self.length = length
        self._n_published = min(self._n_published, length // size)

    def widen(self, max_blocks: int) -> None:
        """Make room in the table for a longer context."""
        self.table = np.pad(self.table, (0, max_blocks - len(self.table)))

    def release(self) -> None:
        """Give every block back."""
        self.truncate(0)

    def _append(self, block: int) -> None:
        self.table[len(self._blocks)] = block
        self._blocks.append(block)

    def _own(self, index: int) -> bool:
        """Make the block at ``index``, about to be written, this sequence's alone."""
        block = self._blocks[index]
        if self._pool.n_users(block) == 1:
            self._pool.forget(block)
            return True
        fresh = self._pool.take()
        if fresh is None:
            return False
        self._copy(fresh, block)
        self._pool.release(block)
        self._blocks[index] = fresh
        self.table[index] = fresh
        return True
