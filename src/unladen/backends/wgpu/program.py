"""Programs: a compiled segment uploads a step's words and submits the step's dispatches."""

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
from unladen.graph.batch import Batch, SizeClass
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""How many dispatches of a prefill are submitted together. It can be cancelled between
submissions."""
MOST_SIZES = 32
"""For how many sizes of steps in one class encoded dispatches are kept. In a decode step the size
grows with the longest sequence."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A compiled kernel with its bind group and its grid."""

    pipeline: Pipeline
    bindings: Any
    grid: Grid


@dataclass(slots=True)
class WgpuProgram:
    """A compiled segment. ``encoded``: the dispatches of a step by its class and size, in groups
    that are submitted together. Each class keeps its own, so prompts of many sizes don't displace
    those of decode steps."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    lowered: Lowered
    cancelled: bool = False
    encoded: dict[SizeClass, dict[Size, list[list[Encoded]]]] = field(default_factory=dict)
    dispatches: Sequence[Bound] = field(init=False)
    step: Step = field(init=False)
    step_words: Range = field(init=False)
    step_bindings: Any = field(init=False)

    def __post_init__(self) -> None:
        self.dispatches = bound(self.gpu, self.lowered.dispatches)
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads,
                         self.lowered.tile_tokens, self.lowered.split_keys)
        n_bytes = self.step.words.nbytes
        self.step_words = Range(self.gpu.buffer(n_bytes), 0, n_bytes)
        self.step_bindings = self.gpu.bind_step(self.step_words)

    def run(self) -> None:
        """Upload and submit the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        words, size = self.step.pack()
        self.gpu.write(self.step_words.buffer, 0, words.view(np.uint8))
        groups = self._groups(size)
        before: int | None = None
        tokens = self._tokens() if self.batch.continues else None
        for group in groups:
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            submission = submit(self.gpu, self.step_bindings, group, tokens)
            if before is not None:
                # Two submissions run at a time: they keep the device busy, and a cancel waits only
                # for these two.
                self.gpu.wait_for(before)
            before, tokens = submission, None

    def _groups(self, size: Size) -> list[list[Encoded]]:
        alike = self.encoded.setdefault(self.batch.size_class, {})
        if size not in alike:
            if len(alike) == MOST_SIZES:
                del alike[next(iter(alike))]
            alike[size] = self._encode(size)
        return alike[size]

    def _tokens(self) -> Copy:
        """The copy of the chosen tokens from the output of ``argmax`` to the step's words, where
        ``embed`` reads them."""
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
    """Compile and bind ``dispatches``. All their structs of numbers are in one uniform buffer, each
    at an offset where a binding may begin. Equal structs are stored once."""
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
