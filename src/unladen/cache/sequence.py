"""One sequence's part of the cache: a table of blocks that grows, forks and rolls back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from unladen.cache.blocks import NO_BLOCK, BlockPool
from unladen.cache.windows import WindowTable
from unladen.types import NO_SLOT


class CopyBlock(Protocol):
    """The plan's :meth:`~unladen.runtime.plan.Plan.copy_block`."""

    def __call__(self, target: int, source: int, /, group: int = 0) -> None:
        """Copy block ``source`` onto ``target``: 0 of whole sequences, else of a window."""


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
        self._end = 0  # of the prompt, where no more tokens are known; 0 while it is read
        self._checkpoint: tuple[int, int] | None = None  # the latest one behind that: block, slot
        self.slot = self.next_slot = NO_SLOT
        self._tables: npt.NDArray[np.int32] = np.zeros((1 + len(pool.windows), max_blocks),
                                                       np.int32)
        self._table = self._tables[0]
        self._windows = [WindowTable(window, pool.block_tokens, partial(copy, group=group), row)
                         for group, (window, row) in enumerate(
                             zip(pool.windows, self._tables[1:], strict=True), 1)]

    @property
    def n_blocks(self) -> int:
        """Blocks held."""
        return len(self._blocks)

    @property
    def blocks(self) -> npt.NDArray[np.int32]:
        """int32 [n_blocks]: the block of each ``block_tokens`` tokens; a view, valid until the
        sequence changes."""
        blocks: npt.NDArray[np.int32] = self._table[:len(self._blocks)]
        return blocks

    @property
    def tables(self) -> npt.NDArray[np.int32]:
        """Without windows :attr:`blocks`, else int32 [n_groups, n_blocks]: whole sequences, then
        each window. The entries of a window are valid from its entry of :attr:`firsts` on."""
        if not self._windows:
            return self.blocks
        tables: npt.NDArray[np.int32] = self._tables[:, :len(self._blocks)]
        return tables

    @property
    def firsts(self) -> list[int]:
        """By group, the index of the first block that the sequence holds: 0 with whole sequences.
        """
        return [0, *(window.first for window in self._windows)]

    @property
    def windows(self) -> Sequence[WindowTable]:
        """The blocks held of each window."""
        return self._windows

    def begin_at(self, firsts: Sequence[int]) -> None:
        """Begin each group at the block with the index in ``firsts``; the sequence must be empty.
        """
        for window, first in zip(self._windows, firsts[1:], strict=True):
            window.first = first

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
        known = known[:self._n_continuable(known)]
        for block in known:
            self._pool.share(block)
            self._append(block)
        for window in self._windows:
            window.adopt(known)
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
        if not all(window.reserve(self.length, n_tokens) for window in self._windows):
            return False
        if self.is_recurrent and self.next_slot == NO_SLOT:
            slot = self._pool.slots.take()
            if slot is None:
                return False
            self.next_slot = slot
        return True

    def n_missing(self, n_tokens: int) -> int:
        """Blocks of whole sequences that :meth:`reserve` would take from the pool."""
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
        if not self._end and length // size == len(tokens) // size:
            self._end = length
        while (self._n_published + 1) * size <= length:
            i = self._n_published
            before = self._blocks[i - 1] if i else NO_BLOCK
            content = tuple(tokens[i * size:(i + 1) * size])
            self._pool.publish(self._blocks[i], before, content)
            known = self._pool.find(before, content)
            if known is not None:
                self._replace(i, known)
            if self._windows:
                self._keep_windows(i, known)
            self._n_published += 1
        for window in self._windows:
            window.settle(length, self._end)
        if self.next_slot != NO_SLOT:
            self._leave_slot()
            self.slot, self.next_slot = self.next_slot, NO_SLOT
            if length % size == 0:
                self._keep(tokens[:length], passed=length // size < len(tokens) // size)

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
        if self._pool.is_known(block):
            self._keep_windows(n_full, block)
            if self.slot != NO_SLOT:
                self._pool.slots.keep(block, self.slot)

    def checkpoint(self) -> tuple[int, int]:
        """Before which of its tokens the latest checkpoint of recurrent state is, and its slot;
        none: 0 and ``NO_SLOT``. What windows see there is held, too."""
        size = self._pool.block_tokens
        for i in range((self.length - 1) // size, 0, -1):
            slot = self._pool.slots.find(self._blocks[i - 1])
            if slot is not None and all(w.holds(i * size) for w in self._windows):
                return i * size, slot
        return 0, NO_SLOT

    def fork(self) -> CachedSequence:
        """A second sequence with the same past; blocks are shared until one of them writes."""
        other = CachedSequence(self._pool, self._copy, len(self._table))
        self._writable = -1
        other._windows = [mine.fork(its.row) for mine, its in zip(self._windows, other._windows,
                                                                   strict=True)]
        for window in other._windows:
            window.cut(self.length)
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
        if length < self.length and (self.is_recurrent or not all(
                window.holds(length) for window in self._windows)):
            whole = self._blocks[:length // size]
            whole = whole[:self._n_continuable(whole)]
            length = size * len(whole)
            for window in self._windows:
                window.adopt(whole)
        for window in self._windows:
            window.cut(length)
        while len(self._blocks) > -(-length // size):
            self._pool.release(self._blocks.pop())
        self.length = length
        self._n_published = min(self._n_published, length // size)
        self._writable = -1
        self._end, self._checkpoint = 0, None  # another prompt begins
        return length

    def trim(self) -> None:
        """Give back what was reserved beyond the tokens that are there."""
        while len(self._blocks) > -(-self.length // self._pool.block_tokens):
            self._pool.release(self._blocks.pop())
        for window in self._windows:
            window.cut(self.length)
        self._leave_next_slot()

    def widen(self, max_blocks: int) -> None:
        """Make room in the table for a longer context."""
        self._tables = np.pad(self._tables, ((0, 0), (0, max_blocks - len(self._table))))
        self._table = self._tables[0]
        for window, row in zip(self._windows, self._tables[1:], strict=True):
            window.row = row

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

    def _keep(self, tokens: Sequence[int], *, passed: bool) -> None:
        """Leave a checkpoint at the end of ``tokens``, for this sequence and for those that will
        begin like it: these find another block, if one was known before. ``passed``: further tokens
        are known. A checkpoint behind the prompt takes the place of the one before it."""
        slots, i = self._pool.slots, len(tokens) // self._pool.block_tokens - 1
        slots.keep(self._blocks[i], self.slot, passed=passed)
        if not passed:
            if self._checkpoint is not None:
                slots.let_pass(*self._checkpoint)
            if len(tokens) > self._end:
                self._checkpoint = self._blocks[i], self.slot
        if not self._pool.is_known(self._blocks[i]):
            known = self._known(tokens)
            if len(known) > i:
                slots.keep(known[i], self.slot, passed=passed)

    def _n_continuable(self, blocks: Sequence[int]) -> int:
        """How many of the sequence's first ``blocks`` can be gone on from; takes up the state
        there."""
        if not self.is_recurrent and not self._windows:
            return len(blocks)
        self._leave_slot()
        n = len(blocks)
        while n > 0:
            known = min((window.n_known(blocks, n) for window in self._windows), default=n)
            if known < n:
                n = known
                continue
            if not self.is_recurrent:
                return n
            slot = self._pool.slots.resume(blocks[n - 1])
            if slot is not None:
                self.slot = slot
                return n
            n -= 1
        return 0

    def _keep_windows(self, index: int, whole: int | None) -> None:
        """Let those who find the block ``whole`` find what windows have of the same tokens, which
        are in the block at ``index``."""
        for window in self._windows:
            if whole is not None and window.first <= index < window.end:
                window.pool.keep(whole, int(window.row[index]))

    def _leave_slot(self) -> None:
        if self.slot != NO_SLOT:
            self._pool.slots.release(self.slot)
            self.slot = NO_SLOT

    def _leave_next_slot(self) -> None:
        if self.next_slot != NO_SLOT:
            self._pool.slots.release(self.next_slot)
            self.next_slot = NO_SLOT

    def _replace(self, index: int, block: int) -> None:
        """Hold the known ``block`` of the same tokens at ``index``: only blocks that continue a
        known one can become known."""
        own = self._blocks[index]
        if block != own:
            self._pool.share(block)
            self._table[index] = self._blocks[index] = block
            self._pool.release(own)

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
