"""Blocks of the paged cache: which sequence uses which, and which hold a known prefix.

A block is a number; the memory behind it is the plan's, in every layer at once. A full block is
known by its content: its own tokens and the block before it, so one entry means a whole prefix. The
last block of a restored state is known, too. If it isn't full it is called a tail: a sequence that
continues it writes to a copy.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from unladen.cache.slots import SlotPool

NO_BLOCK = -1
"""Stands before a sequence's first block."""


@dataclass(frozen=True, slots=True)
class PrefixKey:
    """The content of a block: the chain that it continues (by serial number), its tokens."""

    parent: int
    tokens: tuple[int, ...]


class BlockPool:
    """``n_blocks`` blocks of ``block_tokens`` tokens with reference counts.

    A block that nobody uses but whose content is known stays around, oldest first to go, until its
    memory is needed. :attr:`slots` has the recurrent state, with checkpoints at ends of blocks.
    """

    def __init__(self, n_blocks: int, block_tokens: int, n_slots: int = 0) -> None:
        self.slots = SlotPool(n_slots)
        self.n_blocks = n_blocks
        self.block_tokens = block_tokens
        self._free = list(range(n_blocks - 1, -1, -1))
        self._n_users = [0] * n_blocks
        self._key_of: dict[int, PrefixKey] = {}
        self._known: dict[PrefixKey, int] = {}
        self._serial_of: dict[int, int] = {NO_BLOCK: 0}
        self._next_serial = 1
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._tails: dict[int, set[int]] = {}  # by the serial number that they continue

    @property
    def n_available(self) -> int:
        """Blocks that :meth:`take` can still give."""
        return len(self._free) + len(self._idle)

    def take(self) -> int | None:
        """A block for one user, with no content; None where all are in use."""
        if self._free:
            block = self._free.pop()
        elif self._idle:
            block, _ = self._idle.popitem(last=False)
            self.forget(block)
        else:
            return None
        self._n_users[block] = 1
        return block

    def grow(self, n_blocks: int) -> None:
        """Have ``n_blocks`` in all from now on, the old ones among them."""
        self._free[:0] = range(n_blocks - 1, self.n_blocks - 1, -1)
        self._n_users += [0] * (n_blocks - self.n_blocks)
        self.n_blocks = n_blocks

    def share(self, block: int) -> None:
        """One more user of ``block``."""
        if self._n_users[block] == 0:
            del self._idle[block]
        self._n_users[block] += 1

    def release(self, block: int) -> None:
        """One user less; the last one leaves a known block idle, another free."""
        self._n_users[block] -= 1
        if self._n_users[block] == 0:
            if block in self._key_of:
                self._idle[block] = None
            else:
                self.slots.drop(block)
                self._free.append(block)

    def n_users(self, block: int) -> int:
        """How many sequences hold ``block``."""
        return self._n_users[block]

    def find(self, before: int, tokens: tuple[int, ...]) -> int | None:
        """The block that continues ``before`` with ``tokens``, if its content is at hand."""
        serial = self._serial_of.get(before)
        return None if serial is None else self._known.get(PrefixKey(serial, tokens))

    def find_tail(self, before: int, tokens: tuple[int, ...]) -> tuple[int, int]:
        """The tail that continues ``before`` with the most of ``tokens``, and how many: 0 where
        there is none."""
        found = (NO_BLOCK, 0)
        for block in self._tails.get(self._serial_of.get(before, -1), ()):
            n = _n_equal(self._key_of[block].tokens, tokens)
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
        content stays unknown: later sequences share the first."""
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
        """The content of ``block`` is about to change. What continued it can't be found any more,
        since its serial number is gone; those blocks leave by age."""
        self.slots.drop(block)
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._known[key]
            del self._serial_of[block]
            if len(key.tokens) < self.block_tokens:
                self._tails[key.parent].remove(block)
                if not self._tails[key.parent]:
                    del self._tails[key.parent]


def _n_equal(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)))
