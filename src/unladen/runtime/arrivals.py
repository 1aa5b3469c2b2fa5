"""Weights on their way into a slot of a device's ring, while the device computes with another slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from unladen.backends import backend_of
from unladen.backends.base import Backend, Buffer, Device, Mark, Placed
from unladen.runtime.loading import PIECE_BYTES


@dataclass(slots=True)
class Arrivals:
    """One slot of the ring of ``device``. For each run that uses it: :meth:`send`, then
    :meth:`arrive` right before the run and :meth:`release` right after its start."""

    backend: Backend
    device: Device
    _released: Mark = field(default=None, init=False)
    _waiting: list[Callable[[], None]] = field(default_factory=list, init=False)

    def send(self, moves: Sequence[tuple[Buffer, Placed]]) -> None:
        """Begin to copy weights of the host, each into its buffer. The copies wait for the last run
        that used the slot, and not for later ones."""
        after = self.backend.mark(self.device) if self._released is None else self._released
        self._waiting.clear()
        for target, placed in moves:
            n = placed.weight.nbytes_in(placed.quant)
            data = backend_of(placed.buffer.device.name).read(placed.buffer, n, placed.offset)
            self._waiting += [self.backend.write_ahead(target, data[start:start + PIECE_BYTES],
                                                       start, after=after)
                              for start in range(0, n, PIECE_BYTES)]

    def arrive(self) -> None:
        """What is started from now on sees the weights."""
        for wait in self._waiting:
            wait()
        self._waiting.clear()

    def release(self) -> None:
        """The run that uses the weights was started: once it is done, others may take their place.
        """
        self._released = self.backend.mark(self.device)

    def forget(self) -> None:
        """A step ended early, so the slot's last use isn't known: the next copies wait for all work
        so far."""
        self._released = None
        self._waiting.clear()
