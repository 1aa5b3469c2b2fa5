"""A compiled segment: what a step uploads, and the dispatches that it submits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.dispatch import Dispatch, Grid, Lowered
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import ALIGNMENT, Range
from unladen.backends.wgpu.encode import Copy, Encoded, submit
from unladen.backends.wgpu.gpu import Gpu, Pipeline
from unladen.errors import Cancelled
from unladen.graph.batch import Batch
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""Dispatches of a prefill that are submitted together; between submissions it can be cancelled."""
MOST_SIZES = 64
"""Sizes of steps whose encoded dispatches are kept."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A compiled kernel with everything that it binds."""

    pipeline: Pipeline
    bindings: Any
    grid: Grid


@dataclass(slots=True)
class WgpuProgram:
    """See the module. ``encoded``: by size of a step, its dispatches in the groups that are
    submitted together."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    lowered: Lowered
    cancelled: bool = False
    encoded: dict[Size, list[list[Encoded]]] = field(default_factory=dict)
    dispatches: Sequence[Bound] = field(init=False)
    step: Step = field(init=False)
    step_words: Range = field(init=False)
    step_bindings: Any = field(init=False)

    def __post_init__(self) -> None:
        self.dispatches = bound(self.gpu, self.lowered.dispatches)
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads)
        n_bytes = self.step.words.nbytes
        self.step_words = Range(self.gpu.buffer(n_bytes), 0, n_bytes)
        self.step_bindings = self.gpu.bind_step(self.step_words)

    def run(self) -> None:
        """Upload and submit the step in the batch; raises :class:`Cancelled`."""
        self.cancelled = False
        words, size = self.step.pack()
        self.gpu.write(self.step_words.buffer, 0, words.view(np.uint8))
        groups = self.encoded.get(size)
        if groups is None:
            if len(self.encoded) > MOST_SIZES:
                self.encoded.clear()
            groups = self.encoded[size] = self._encode(size)
        before: int | None = None
        tokens = self._tokens() if self.batch.continues else None
        for group in groups:
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            submission = submit(self.gpu, self.step_bindings, group, tokens)
            if before is not None:
                # Two are under way: enough to keep the device busy, few to wait for after a cancel.
                self.gpu.wait_for(before)
            before, tokens = submission, None

    def _tokens(self) -> Copy:
        """From where ``argmax`` left them to where ``embed`` looks for them."""
        assert self.lowered.chosen is not None
        return Copy(self.lowered.chosen, Range(self.step_words.buffer, self.step.tokens_offset,
                                               4 * self.batch.n_tokens))

    def _encode(self, size: Size) -> list[list[Encoded]]:
        flat: list[Encoded] = []
        for d in self.dispatches:
            groups = d.grid(size)
            if groups is not None:
                flat.append((d.pipeline.handle, d.bindings._internal, *groups))
        if size.is_decode or not flat:
            return [flat] if flat else []
        return [flat[i:i + DISPATCHES_AT_ONCE] for i in range(0, len(flat), DISPATCHES_AT_ONCE)]


def bound(gpu: Gpu, dispatches: Sequence[Dispatch]) -> list[Bound]:
    """Compile and bind ``dispatches``. Their structs of numbers go into one uniform buffer, each
    where a binding may begin, those with the same bytes once."""
    places: dict[bytes, int] = {}
    for d in dispatches:
        for what in d.ranges.values():
            if isinstance(what, bytes):
                places.setdefault(what, len(places) * ALIGNMENT)
    assert all(len(data) <= ALIGNMENT for data in places), max(places, key=len)
    packed = b"".join(data.ljust(ALIGNMENT, b"\0") for data in places)
    uniform = gpu.upload(np.frombuffer(packed or bytes(ALIGNMENT), np.uint8), uniform=True).buffer
    result = []
    for d in dispatches:
        pipeline = gpu.pipeline(d.kernel, d.quant, d.constants)
        ranges = {name: Range(uniform, places[what], ALIGNMENT) if isinstance(what, bytes) else what
                  for name, what in d.ranges.items()}
        result.append(Bound(pipeline, gpu.bind(pipeline, ranges), d.grid))
    return result
