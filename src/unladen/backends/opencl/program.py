"""A compiled segment: kernels with their arguments, which every step starts again."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unladen.backends._gpu.dispatch import Grid, Lowered
from unladen.backends._gpu.step import Size, Step, Words
from unladen.backends._gpu.target import Range
from unladen.backends.opencl import driver
from unladen.backends.opencl.device import Event, Gpu, Memory
from unladen.backends.opencl.recording import Recording, Started
from unladen.errors import Cancelled
from unladen.graph.batch import Batch, SizeClass
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""How many dispatches of a prefill are started together. It can be cancelled between them."""
MOST_SIZES = 32
"""For how many sizes of steps in one class the grids are kept. In a decode step the size grows with
the longest sequence."""
N_STAGED = 4
"""How many steps may have been started whose words the driver hasn't read yet."""


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
    which it can be cancelled. A decode step is one group, recorded where the device can."""

    gpu: Gpu
    batch: Batch
    limits: Limits
    lowered: Lowered
    cancelled: bool = False
    sized: dict[SizeClass, dict[Size, Sequence[Group | Recording]]] = field(default_factory=dict)
    dispatches: Sequence[Bound] = field(init=False)
    step: Step = field(init=False)
    words: StepWords = field(init=False)

    def __post_init__(self) -> None:
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads,
                         self.lowered.tile_tokens, self.lowered.split_keys)
        self.words = StepWords(self.gpu, self.step.words.nbytes)
        words = Range(self.words.memory, 0, self.step.words.nbytes)
        self.dispatches = [
            Bound(self.gpu.kernel(self.gpu.compiled(d.kernel, d.quant, d.constants),
                                  {**d.ranges, "step": words}),
                  (c_size_t * 3)(d.threads, 1, 1), d.threads, d.grid)
            for d in self.lowered.dispatches]

    def run(self) -> None:
        """Upload and start the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        words, size = self.step.pack()
        self.words.write(words)
        if self.batch.continues:
            chosen = self.lowered.chosen
            assert chosen is not None
            self.gpu.copy(self.words.memory, self.step.tokens_offset, chosen.buffer, chosen.offset,
                          4 * self.batch.n_tokens)
        groups = self._groups(size)
        if size.is_decode:
            for group in groups:
                group.start()
            self.gpu.flush()
        else:
            self._start(groups)

    def _start(self, groups: Sequence[Group | Recording]) -> None:
        before: Event | None = None
        for group in groups:
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            group.start()
            marked = self.gpu.mark()
            if before is not None:
                # Two groups run at a time: they keep the device busy, and a cancel waits only for
                # these two.
                before.wait()
            before = marked

    def _groups(self, size: Size) -> Sequence[Group | Recording]:
        alike = self.sized.setdefault(self.batch.size_class, {})
        if size not in alike:
            if len(alike) == MOST_SIZES:
                del alike[next(iter(alike))]
            alike[size] = self._sized(size)
        return alike[size]

    def _sized(self, size: Size) -> Sequence[Group | Recording]:
        flat: list[Started] = []
        for d in self.dispatches:
            groups = d.grid(size)
            if groups is not None:
                x, y, z = groups
                flat.append((d.kernel, (c_size_t * 3)(x * d.threads, y, z), d.local))
        if not flat:
            return []
        if size.is_decode:
            recorder = self.gpu.recorder
            return [Group(self.gpu, flat) if recorder is None else recorder.record(flat)]
        return [Group(self.gpu, flat[i:i + DISPATCHES_AT_ONCE])
                for i in range(0, len(flat), DISPATCHES_AT_ONCE)]

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if library is not None and hasattr(self, "dispatches"):
            self.sized.clear()
            for d in self.dispatches:
                library.clReleaseKernel(d.kernel)


class Group:
    """Kernels that are started one after the other."""

    def __init__(self, gpu: Gpu, kernels: Sequence[Started]) -> None:
        self.gpu, self.kernels = gpu, kernels

    def start(self) -> None:
        """Start the kernels after what was started before."""
        library, queue = driver.library(), self.gpu.queue
        assert library is not None
        start = library.clEnqueueNDRangeKernel
        for kernel, threads, local in self.kernels:
            failed = start(queue, kernel, 3, None, threads, local, 0, None, None)
            if failed:
                raise self.gpu.caller.error("clEnqueueNDRangeKernel", failed)


class StepWords:
    """The step's words on the device, and places for them on the host until they are uploaded."""

    def __init__(self, gpu: Gpu, nbytes: int) -> None:
        self.gpu, self.memory = gpu, Memory(gpu, nbytes)
        self.staged = [np.empty(nbytes // 4, np.int32) for _ in range(N_STAGED)]
        self.events = [c_void_p() for _ in range(N_STAGED)]
        self.at = [c_void_p(words.ctypes.data) for words in self.staged]
        self.next = 0

    def write(self, words: Words) -> None:
        """Upload ``words`` after the work that was started before."""
        i, self.next = self.next, (self.next + 1) % N_STAGED
        event = ctypes.byref(self.events[i])
        if self.events[i]:
            self.gpu.caller.call("clWaitForEvents", 1, event)
            self.gpu.caller.call("clReleaseEvent", self.events[i])
            self.events[i].value = None
        self.staged[i][:words.size] = words
        self.gpu.caller.call("clEnqueueWriteBuffer", self.gpu.queue, self.memory.handle, 0, 0,
                             words.nbytes, self.at[i], 0, None, event)

    @driver.PROCESS.frees
    def __del__(self) -> None:
        library = driver.library()
        if library is None or not hasattr(self, "events"):
            return
        for event in self.events:
            if event:  # the driver reads the host's memory until then
                library.clWaitForEvents(1, ctypes.byref(event))
                library.clReleaseEvent(event)
