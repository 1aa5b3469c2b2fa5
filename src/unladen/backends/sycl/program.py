"""A compiled segment: kernels with their arguments, which every step submits again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.dispatch import Grid, Lowered
from unladen.backends._gpu.step import Step
from unladen.backends._gpu.target import Range
from unladen.backends.sycl.device import Gpu, Memory
from unladen.backends.sycl.driver import told
from unladen.errors import Cancelled
from unladen.graph.batch import Batch
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""How many dispatches of a prefill are started together. It can be cancelled between them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel with its arguments, the threads of a workgroup, and the grid."""

    kernel: Any
    arguments: list[Any]
    threads: int
    grid: Grid


@dataclass(slots=True)
class SyclProgram:
    """A compiled segment."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    lowered: Lowered
    cancelled: bool = False
    dispatches: Sequence[Bound] = field(init=False)
    step: Step = field(init=False)
    words: Memory = field(init=False)

    def __post_init__(self) -> None:
        gpu = self.gpu
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads,
                         self.lowered.tile_tokens, self.lowered.split_keys)
        self.words = Memory(gpu, self.step.words.nbytes)
        words = Range(self.words, 0, self.step.words.nbytes)
        found = []
        for d in self.lowered.dispatches:
            compiled = gpu.compiled(d.kernel, d.quant, d.constants)
            arguments = gpu.arguments(compiled.source, {**d.ranges, "step": words})
            found.append(Bound(compiled.kernel, arguments, d.threads, d.grid))
        self.dispatches = found

    def run(self) -> None:
        """Upload and start the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        gpu = self.gpu
        words, size = self.step.pack()
        gpu.write(self.words, 0, words.view(np.uint8))
        if self.batch.continues:
            chosen = self.lowered.chosen
            assert chosen is not None
            gpu.copy(self.words, self.step.tokens_offset, chosen.buffer, chosen.offset,
                     4 * self.batch.n_tokens)
        event, n_started = None, 0
        try:
            for d in self.dispatches:
                groups = d.grid(size)
                if groups is None:
                    continue
                x, y, z = groups
                with told(gpu.name):
                    # SYCL counts dimensions from the slowest to the fastest.
                    event = gpu.queue.submit_async(d.kernel, d.arguments, [z, y, x * d.threads],
                                                   [1, 1, d.threads])
                n_started += 1
                if not size.is_decode and n_started % DISPATCHES_AT_ONCE == 0:
                    with told(gpu.name):
                        event.wait()
                    if self.cancelled:
                        raise Cancelled("the step was cancelled")
        finally:
            # Also where a signal's handler raises an exception: what was started uses memory of
            # this.
            if event is not None:
                gpu.keep(event, self)
