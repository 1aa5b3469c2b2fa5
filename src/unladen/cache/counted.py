"""Numbered blocks with reference counts: what all pools of blocks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import TypeVar

Idle = TypeVar("Idle", "OrderedDict[int, None]", "OrderedDict[int, int]")

PASSED_SHARE = 4
"""What sequences have passed goes before what they ended with, but keeps one part in this many of
all that is kept. A beginning that many prompts share ends in what they pass."""


class CountedBlocks(ABC):
    """``n_blocks`` blocks with reference counts. A subclass says which of them are known, so that
    later sequences find them by their content.

    A known block that no sequence holds is idle: it keeps its content until its memory is needed.
    The block that was unused longest goes first, but blocks that sequences have merely passed go
    before others, see :data:`PASSED_SHARE`. An unknown block that no sequence holds is free.
    """

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = n_blocks
        self._free = list(range(n_blocks - 1, -1, -1))
        self._n_users = [0] * n_blocks
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._passed: OrderedDict[int, None] = OrderedDict()  # idle, too

    @abstractmethod
    def is_known(self, block: int) -> bool:
        """Whether later sequences find ``block`` by its content."""

    @abstractmethod
    def forget(self, block: int) -> None:
        """Make ``block`` unknown, because its content is about to change."""

    @property
    def n_available(self) -> int:
        """Blocks that :meth:`take` can still give."""
        return len(self._free) + len(self._idle) + len(self._passed)

    @property
    def n_held(self) -> int:
        """Blocks that sequences hold: none once all sequences are released."""
        return self.n_blocks - self.n_available

    def take(self) -> int | None:
        """A block for one user, unknown and with any content; None where all are in use."""
        if not self._free:
            for idle in by_turn(self._passed, self._idle):
                if idle:
                    self.forget(next(iter(idle)))
                    break
            else:
                return None
        block = self._free.pop()
        self._n_users[block] = 1
        return block

    def grow(self, n_blocks: int) -> None:
        """Add blocks until there are ``n_blocks``; the old ones keep their numbers."""
        self._free[:0] = range(n_blocks - 1, self.n_blocks - 1, -1)
        self._n_users += [0] * (n_blocks - self.n_blocks)
        self.n_blocks = n_blocks

    def share(self, block: int) -> None:
        """One more user of ``block``."""
        if self._n_users[block] == 0:
            self._leave_idle(block)
        self._n_users[block] += 1

    def release(self, block: int, *, passed: bool = False) -> None:
        """One user less. Without users a known block becomes idle, another becomes free.
        ``passed``: the sequence goes on without the block."""
        self._n_users[block] -= 1
        if self._n_users[block] == 0:
            if self.is_known(block):
                (self._passed if passed else self._idle)[block] = None
            else:
                self._free.append(block)

    def n_users(self, block: int) -> int:
        """How many sequences hold ``block``."""
        return self._n_users[block]

    def _free_idle(self, block: int) -> None:
        """Make ``block``, which was forgotten just now, free if it was idle."""
        if self._leave_idle(block):
            self._free.append(block)

    def _leave_idle(self, block: int) -> bool:
        """Whether ``block`` was idle; it isn't any more."""
        for idle in (self._idle, self._passed):
            if block in idle:
                del idle[block]
                return True
        return False


def by_turn(passed: Idle, ended: Idle) -> tuple[Idle, Idle]:
    """What sequences have ``passed`` and what they ``ended`` with, first that of which the oldest
    goes next."""
    n = len(passed)
    return (passed, ended) if n * PASSED_SHARE >= n + len(ended) else (ended, passed)
