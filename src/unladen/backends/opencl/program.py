"""A compiled segment: kernels with their arguments, which every step starts again."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.dispatch import Grid, Lowered
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import Range
from unladen.backends.opencl import driver
from unladen.backends.opencl.device import Event, Gpu, Memory
from unladen.errors import Cancelled
from unladen.graph.batch import Batch, SizeClass
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""How many dispatches of a prefill are started together. It can be cancelled between them."""
MOST_SIZES = 32
"""For how many sizes of steps in one class the grids are kept. In a decode step the size grows with
the longest sequence."""

Started = tuple[c_void_p, Any, Any]
"""A kernel, its threads in x, y and z, and those of a workgroup."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel with its arguments, the threads of a workgroup, and the grid."""

    kernel: c_void_p
    local: Any
    threads: int
    grid: Grid


@dataclass(slots=True)
class OpenClProgram:
    """A compiled segment. ``sized``: what a step starts, by its class and size, in groups between
    which it can be cancelled."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    lowered: Lowered
    cancelled: bool = False
    sized: dict[SizeClass, dict[Size, list[list[Started]]]] = field(default_factory=dict)
    dispatches: Sequence[Bound] = field(init=False)
    step: Step = field(init=False)
    words: Memory = field(init=False)

    def __post_init__(self) -> None:
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads)
        self.words = Memory(self.gpu, self.step.words.nbytes)
        words = Range(self.words, 0, self.step.words.nbytes)
        self.dispatches = [
            Bound(self.gpu.kernel(self.gpu.compiled(d.kernel, d.quant, d.constants),
                                  {**d.ranges, "step": words}),
                  (c_size_t * 3)(d.threads, 1, 1), d.threads, d.grid)
            for d in self.lowered.dispatches]

    def run(self) -> None:
        """Upload and start the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        words, size = self.step.pack()
        self.gpu.write(self.words, 0, words.view(np.uint8))
        if self.batch.continues:
            chosen = self.lowered.chosen
            assert chosen is not None
            self.gpu.copy(self.words, self.step.tokens_offset, chosen.buffer, chosen.offset,
                          4 * self.batch.n_tokens)
        before: Event | None = None
        for group in self._groups(size):
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            self._start(group)
            marked = self.gpu.mark()
            if before is not None:
                # Two groups run at a time: they keep the device busy, and a cancel waits only for
                # these two.
                before.wait()
            before = marked

    def _start(self, group: list[Started]) -> None:
        library, queue = driver.library(), self.gpu.queue
        assert library is not None
        start = library.clEnqueueNDRangeKernel
        for kernel, threads, local in group:
            failed = start(queue, kernel, 3, None, threads, local, 0, None, None)
            if failed:
                raise driver.error(self.gpu.name, "clEnqueueNDRangeKernel", failed)

    def _groups(self, size: Size) -> list[list[Started]]:
        alike = self.sized.setdefault(self.batch.size_class, {})
        if size not in alike:
            if len(alike) == MOST_SIZES:
                del alike[next(iter(alike))]
            alike[size] = self._sized(size)
        return alike[size]

    def _sized(self, size: Size) -> list[list[Started]]:
        flat: list[Started] = []
        for d in self.dispatches:
            groups = d.grid(size)
            if groups is not None:
                x, y, z = groups
                flat.append((d.kernel, (c_size_t * 3)(x * d.threads, y, z), d.local))
        if size.is_decode or not flat:
            return [flat] if flat else []
        return [flat[i:i + DISPATCHES_AT_ONCE] for i in range(0, len(flat), DISPATCHES_AT_ONCE)]

    def __del__(self) -> None:
        library = driver.library()
        if library is not None and hasattr(self, "dispatches"):
            for d in self.dispatches:
                library.clReleaseKernel(d.kernel)


