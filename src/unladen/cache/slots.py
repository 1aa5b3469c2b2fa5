"""Slots of recurrent state: who uses which, and which are known as the end of a cached prefix."""

from __future__ import annotations

from collections import OrderedDict


class SlotPool:
    """``n_slots`` slots with reference counts; 0 where a model has no recurrent state.

    A slot may be kept as what stood at the end of a full cache block. Such a checkpoint stays until
    that block's content goes, or its slot is needed for something else, the oldest first.
    """

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._free = list(range(n_slots - 1, -1, -1))
        self._n_users = [0] * n_slots
        self._kept: OrderedDict[int, int] = OrderedDict()

    @property
    def n_available(self) -> int:
        """Slots that :meth:`take` can still give."""
        return len(self._free) + sum(self._n_users[s] == 1 for s in self._kept.values())

    def take(self) -> int | None:
        """A slot for one user, with any content; None where all are in use."""
        if not self._free:
            oldest = next((b for b, s in self._kept.items() if self._n_users[s] == 1), None)
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

    def keep(self, block: int, slot: int) -> None:
        """Remember ``slot`` as the state at the end of ``block``."""
        self.drop(block)
        self.share(slot)
        self._kept[block] = slot

    def find(self, block: int) -> int | None:
        """The state at the end of ``block``, if it is at hand."""
        return self._kept.get(block)

    def drop(self, block: int) -> None:
        """Forget the state at the end of ``block``, whose content is going."""
        slot = self._kept.pop(block, None)
        if slot is not None:
            self.release(slot)
