"""A value that goes from one device's arena to another's in every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from unladen.backends import backend_of
from unladen.backends.base import Buffer
from unladen.graph.batch import Batch
from unladen.types import Shape


@dataclass(slots=True)
class Crossing:
    """Copies a value of ``shape``, as the step in ``batch`` has it, from a place in the buffer
    ``source`` to one in ``target``.

    ``staging``: the value goes through it, and :meth:`arrive` must be called before anything that
    reads it is started; None: the host reads the source in place.
    """

    batch: Batch
    shape: Shape
    source: Buffer
    source_offset: int
    target: Buffer
    target_offset: int
    staging: Buffer | None
    _wait: Callable[[], npt.NDArray[np.uint8]] | None = field(default=None, init=False)

    def send(self) -> None:
        """Start the copy. It runs after the work that the source was given before, and before all
        later work."""
        # A cancelled step may have left a copy that nobody waits for.
        self._wait = None
        source, target = (backend_of(b.device.name) for b in (self.source, self.target))
        sizes = [self.batch.size(s) if isinstance(s, str) else s for s in self.shape]
        nbytes = 4 * math.prod(sizes)
        if nbytes == 0 or (source is target and source.copy(
                self.target, self.target_offset, self.source, self.source_offset, nbytes)):
            return
        if self.staging is None:
            target.write(self.target, source.read(self.source, nbytes, self.source_offset),
                         self.target_offset)
        else:
            self._wait = source.fetch(self.source, nbytes, self.source_offset, self.staging)

    def arrive(self) -> None:
        """Where the value goes through the host, wait for it and pass it on to the target."""
        wait, self._wait = self._wait, None
        if wait is not None:
            backend_of(self.target.device.name).write(self.target, wait(), self.target_offset)
