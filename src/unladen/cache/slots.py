"""Slots of recurrent state: which sequences use them, and which hold the state at the end of a
cached prefix."""

from __future__ import annotations

from collections import OrderedDict

from unladen.cache.counted import by_turn


class SlotPool:
    """``n_slots`` slots with reference counts; 0 where a model has no recurrent state.

    A slot may be kept as a checkpoint: the state at the end of a cache block. A checkpoint stays
    until the content of its block goes, or until its slot is needed. The checkpoint that was unused
    longest goes first, but those that sequences have merely passed go before others: see
    :data:`~unladen.cache.counted.PASSED_SHARE`.
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._free = list(range(n_slots - 1, -1, -1))
        self._n_users = [0] * n_slots
        self._kept: OrderedDict[int, int] = OrderedDict()
        self._passed: OrderedDict[int, int] = OrderedDict()

    @property
    def n_available(self) -> int:
        """Slots that :meth:`take` can still give."""
        return len(self._free) + sum(
            self._n_users[s] == 1 for kept in (self._kept, self._passed) for s in kept.values())

    def take(self) -> int | None:
        """A slot for one user, with any content; None where all are in use."""
        if not self._free:
            oldest = next((b for kept in by_turn(self._passed, self._kept)
                           for b, s in kept.items() if self._n_users[s] == 1), None)
            if oldest is None:
                return None
            self.drop(oldest)
        slot = self._free.pop()
        self._n_users[slot] = 1
        return slot

    def share(self, slot: int) -> None:
        """One more user of ``slot``."""
        self._n_users[slot] += 1

    def release(self, slot: int) -> None:
        """One user less."""
        self._n_users[slot] -= 1
        if self._n_users[slot] == 0:
            self._free.append(slot)

    def keep(self, block: int, slot: int, *, passed: bool = False) -> None:
        """Remember ``slot`` as the state at the end of ``block``. ``passed``: the sequence goes on
        to tokens that are known already."""
        self.drop(block)
        self.share(slot)
        (self._passed if passed else self._kept)[block] = slot

    def let_pass(self, block: int, slot: int) -> None:
        """Note that a sequence has passed its checkpoint at the end of ``block``, if that still is
        in ``slot``."""
        if self._kept.get(block) == slot:
            del self._kept[block]
            self._passed[block] = slot

    def find(self, block: int) -> int | None:
        """The slot with the state at the end of ``block``; None: there is none."""
        return self._kept.get(block, self._passed.get(block))

    def resume(self, block: int) -> int | None:
        """:meth:`find` for one more user. What is used once is likely to be used again, so it is
        kept like the end of a sequence."""
        slot = self.find(block)
        if slot is not None:
            self.share(slot)
            self.keep(block, slot)
        return slot

    def drop(self, block: int) -> None:
        """Forget the state at the end of ``block``."""
        for kept in (self._kept, self._passed):
            slot = kept.pop(block, None)
            if slot is not None:
                self.release(slot)
