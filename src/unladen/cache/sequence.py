"""One sequence's part of the cache: a table of blocks that grows, forks and rolls back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from unladen.cache.blocks import NO_BLOCK, BlockPool
from unladen.types import NO_SLOT

CopyBlock = Callable[[int, int], None]
"""``copy(target, source)``: the plan's :meth:`~unladen.runtime.plan.Plan.copy_block`."""


class CachedSequence:
    """Tokens whose keys and values are in the cache, and the blocks they lie in.

    ``length`` tokens are there. Before a step, :meth:`reserve` room; after it, :meth:`commit`.
    With recurrent state, ``slot`` holds it and the next step writes to ``next_slot``; it can be
    continued, forked and rolled back where it ends and at checkpoints, which :meth:`commit` leaves
    wherever a step ends with a block.
    """

    def __init__(self, pool: BlockPool, copy: CopyBlock, max_blocks: int) -> None:
        self._pool = pool
        self._copy = copy
        self._blocks: list[int] = []
        self._n_published = 0
        self._writable = -1  # index of the block that was seen to be this sequence's alone
        self.length = 0
        self.slot = self.next_slot = NO_SLOT
        self._table: npt.NDArray[np.int32] = np.zeros(max_blocks, np.int32)

    @property
    def n_blocks(self) -> int:
        """Blocks held."""
        return len(self._blocks)

    @property
    def blocks(self) -> npt.NDArray[np.int32]:
        """int32 [n_blocks]: the block of each ``block_tokens`` tokens; a view, to be read before
        the sequence changes."""
        return self._table[:len(self._blocks)]

    @property
    def is_recurrent(self) -> bool:
        """There is recurrent state besides the blocks."""
        return self._pool.slots.n_slots > 0

    def attach(self, tokens: Sequence[int]) -> int:
        """Adopt the longest known prefix of ``tokens``, whole blocks and a tail, but never all of
        it: the last token must be computed to know what follows. Returns how many tokens that is.
        The sequence must be empty."""
        assert not self._blocks
        size = self._pool.block_tokens
        known = self._known(tokens[:-1])
        n_full = len(known)
        tail, n_more = self._pool.find_tail(known[-1] if known else NO_BLOCK,
                                            tuple(tokens[n_full * size:-1][:size]))
        if n_more and (not self.is_recurrent or n_more == self._pool.n_tokens(tail)):
            known.append(tail)
        for block in known[:self._n_continuable(known)]:
            self._pool.share(block)
            self._append(block)
        self._n_published = min(len(self._blocks), n_full)
        self.length = self._n_published * size + n_more * (len(self._blocks) > n_full)
        return self.length

    def reserve(self, n_tokens: int) -> bool:
        """Make room so that the next rows up to ``n_tokens`` in all can be written; False where the
        pool is exhausted (what was reserved stays). A block that is shared and would be written is
        copied first."""
        size = self._pool.block_tokens
        index, n_written = divmod(self.length, size)
        if n_written and index != self._writable:
            if not self._own(index):
                return False
            self._writable = index
        while len(self._blocks) * size < n_tokens:
            block = self._pool.take()
            if block is None:
                return False
            self._append(block)
        if self.is_recurrent and self.next_slot == NO_SLOT:
            slot = self._pool.slots.take()
            if slot is None:
                return False
            self.next_slot = slot
        return True

    def n_missing(self, n_tokens: int) -> int:
        """Blocks that :meth:`reserve` would take from the pool."""
        size = self._pool.block_tokens
        needed = -(-n_tokens // size) - len(self._blocks)
        partial = self.length % size
        # For the copy of a tail that nobody else holds, the tail itself becomes free.
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
        if self.next_slot != NO_SLOT:
            self._leave_slot()
            self.slot, self.next_slot = self.next_slot, NO_SLOT
            if length % size == 0:
                self._keep(tokens[:length])

    def publish_tail(self, tokens: Sequence[int]) -> None:
        """Let later sequences that begin like ``tokens``, all of which are in the cache, find the
        last block too, though it isn't full."""
        n_full, rest = divmod(self.length, self._pool.block_tokens)
        known = self._known(tokens)
        if rest == 0 or len(known) < n_full:
            return
        block = self._blocks[n_full]
        self._pool.publish(block, known[-1] if known else NO_BLOCK,
                           tuple(tokens[self.length - rest:self.length]))
        if self.slot != NO_SLOT and self._pool.is_known(block):
            self._pool.slots.keep(block, self.slot)

    def checkpoint(self) -> tuple[int, int]:
        """Before which of its tokens the latest checkpoint of recurrent state is, and its slot;
        none: 0 and ``NO_SLOT``."""
        size = self._pool.block_tokens
        for i in range((self.length - 1) // size, 0, -1):
            slot = self._pool.slots.find(self._blocks[i - 1])
            if slot is not None:
                return i * size, slot
        return 0, NO_SLOT

    def fork(self) -> CachedSequence:
        """A second sequence with the same past; blocks are shared until one of them writes."""
        other = CachedSequence(self._pool, self._copy, len(self._table))
        self._writable = -1
        for block in self._blocks[:-(-self.length // self._pool.block_tokens)]:
            self._pool.share(block)
            other._append(block)
        other.length, other._n_published = self.length, self._n_published
        if self.slot != NO_SLOT:
            self._pool.slots.share(self.slot)
            other.slot = self.slot
        return other

    def truncate(self, length: int) -> int:
        """Forget what lies beyond the first ``length`` tokens; returns how many are left. Recurrent
        state goes back to a checkpoint, so there may be fewer: compute the missing ones again."""
        assert 0 <= length <= self.length
        size = self._pool.block_tokens
        if self.is_recurrent and length < self.length:
            length = size * self._n_continuable(self._blocks[:length // size])
        while len(self._blocks) > -(-length // size):
            self._pool.release(self._blocks.pop())
        self.length = length
        self._n_published = min(self._n_published, length // size)
        self._writable = -1
        return length

    def trim(self) -> None:
        """Give back what was reserved beyond the tokens that are there."""
        while len(self._blocks) > -(-self.length // self._pool.block_tokens):
            self._pool.release(self._blocks.pop())
        self._leave_next_slot()

    def widen(self, max_blocks: int) -> None:
        """Make room in the table for a longer context."""
        self._table = np.pad(self._table, (0, max_blocks - len(self._table)))

    def release(self) -> None:
        """Give every block and slot back."""
        self.truncate(0)
        self._leave_slot()
        self._leave_next_slot()

    def _known(self, tokens: Sequence[int]) -> list[int]:
        """The known blocks that hold the beginning of ``tokens``."""
        size, known = self._pool.block_tokens, [NO_BLOCK]
        for start in range(0, len(tokens) - size + 1, size):
            block = self._pool.find(known[-1], tuple(tokens[start:start + size]))
            if block is None:
                break
            known.append(block)
        return known[1:]

    def _keep(self, tokens: Sequence[int]) -> None:
        """Leave a checkpoint at the end of ``tokens``, for this sequence and for those that will
        begin like it: these find another block, if one was known before."""
        i = len(tokens) // self._pool.block_tokens - 1
        self._pool.slots.keep(self._blocks[i], self.slot)
        if not self._pool.is_known(self._blocks[i]):
            known = self._known(tokens)
            if len(known) > i:
                self._pool.slots.keep(known[i], self.slot)

    def _n_continuable(self, blocks: Sequence[int]) -> int:
        """How many of the sequence's first ``blocks`` can be gone on from; takes up the state
        there."""
        if not self.is_recurrent:
            return len(blocks)
        self._leave_slot()
        for i in range(len(blocks), 0, -1):
            slot = self._pool.slots.find(blocks[i - 1])
            if slot is not None:
                self._pool.slots.share(slot)
                self.slot = slot
                return i
        return 0

    def _leave_slot(self) -> None:
        if self.slot != NO_SLOT:
            self._pool.slots.release(self.slot)
            self.slot = NO_SLOT

    def _leave_next_slot(self) -> None:
        if self.next_slot != NO_SLOT:
            self._pool.slots.release(self.next_slot)
            self.next_slot = NO_SLOT

    def _append(self, block: int) -> None:
        self._table[len(self._blocks)] = block
        self._blocks.append(block)

    def _own(self, index: int) -> bool:
        """Make the block at ``index``, about to be written, this sequence's alone."""
        block = self._blocks[index]
        is_mine = self._pool.n_users(block) == 1
        fresh = None if is_mine and not self._pool.is_tail(block) else self._pool.take()
        if fresh is None:
            if is_mine:
                self._pool.forget(block)
            return is_mine
        self._copy(fresh, block)
        self._pool.release(block)
        self._blocks[index] = fresh
        self._table[index] = fresh
        return True
