"""Blocks of the paged cache: which sequence uses which, and which hold a known prefix.

A block is a number; the memory behind it is the plan's, in every layer at once. A full block is
known by its content: its own tokens and the block before it, so one entry means a whole prefix. The
last block of a restored state is known, too. If it isn't full it is called a tail: a sequence that
continues it writes to a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unladen.cache.counted import CountedBlocks
from unladen.cache.slots import SlotPool
from unladen.cache.windows import WindowPool

NO_BLOCK = -1
"""In place of the block before a sequence's first block."""


class PrefixKey(NamedTuple):
    """The content of a block: the chain that it continues (by serial number), its tokens."""

    parent: int
    tokens: tuple[int, ...]


class BlockPool(CountedBlocks):
    """``n_blocks`` blocks of ``block_tokens`` tokens. :attr:`slots` has the recurrent state, with
    checkpoints at ends of blocks. ``windows``: the blocks of layers that see a window."""

    def __init__(self, n_blocks: int, block_tokens: int, n_slots: int = 0,
                 windows: Sequence[WindowPool] = ()) -> None:
        super().__init__(n_blocks)
        self.windows = windows
        self.slots = SlotPool(n_slots)
        self.block_tokens = block_tokens
        self._key_of: dict[int, PrefixKey] = {}
        self._known: dict[PrefixKey, int] = {}
        self._serial_of: dict[int, int] = {NO_BLOCK: 0}
        self._next_serial = 1
        self._tails: dict[int, set[int]] = {}  # by the serial number that they continue

    def release(self, block: int, *, passed: bool = False) -> None:
        """As in :class:`CountedBlocks`. Nothing stays beside a block that becomes free."""
        super().release(block, passed=passed)
        if self.n_users(block) == 0 and not self.is_known(block):
            self._drop_beside(block)

    def find(self, before: int, tokens: tuple[int, ...]) -> int | None:
        """The known block that continues ``before`` with ``tokens``; None: there is none."""
        serial = self._serial_of.get(before)
        return None if serial is None else self._known.get(PrefixKey(serial, tokens))

    def find_tail(self, before: int, tokens: tuple[int, ...]) -> tuple[int, int]:
        """The tail that continues ``before`` with the most of ``tokens``, and how many: 0 where
        there is none."""
        found = (NO_BLOCK, 0)
        for block in self._tails.get(self._serial_of.get(before, -1), ()):
            n = n_same(self._key_of[block].tokens, tokens)
            if n > found[1]:
                found = block, n
        return found

    def n_tokens(self, block: int) -> int:
        """How many tokens the content of a known ``block`` is."""
        return len(self._key_of[block].tokens)

    def is_tail(self, block: int) -> bool:
        """Whether ``block`` is known and isn't full."""
        return self.is_known(block) and self.n_tokens(block) < self.block_tokens

    def is_known(self, block: int) -> bool:
        """Whether later sequences find ``block`` by its content."""
        return block in self._key_of

    def publish(self, block: int, before: int, tokens: tuple[int, ...]) -> None:
        """Make the content of ``block`` known, which is full or a tail. A second block of the same
        content stays unknown: later sequences share the first. What continues an unknown block
        can't become known."""
        serial = self._serial_of.get(before)
        if serial is None or block in self._key_of:
            return
        key = PrefixKey(serial, tokens)
        if key not in self._known:
            self._known[key] = block
            self._key_of[block] = key
            self._serial_of[block] = self._next_serial
            self._next_serial += 1
            if len(tokens) < self.block_tokens:
                self._tails.setdefault(serial, set()).add(block)

    def forget(self, block: int) -> None:
        """Make ``block`` unknown, because its content is about to change. The blocks that continue
        it can't be found any more, since its serial number is gone; they leave by age."""
        self._drop_beside(block)
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._known[key]
            del self._serial_of[block]
            if len(key.tokens) < self.block_tokens:
                self._tails[key.parent].remove(block)
                if not self._tails[key.parent]:
                    del self._tails[key.parent]
            self._free_idle(block)

    def _drop_beside(self, block: int) -> None:
        self.slots.drop(block)
        for window in self.windows:
            window.drop(block)


def n_same(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens ``one`` and ``other`` both begin with."""
    n = min(len(one), len(other))
    if one[:n] == other[:n]:  # lists are compared much faster than tokens, and mostly are equal
        return n
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), n)
