"""A compiled segment: kernels with their arguments, recorded for each size of a decode step."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p
from dataclasses import dataclass

import numpy as np

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.device import Arguments, Gpu, Kernel
from unladen.backends._gpu.cuda_like.memory import Growing, Memory
from unladen.backends._gpu.cuda_like.staging import Pinned, pinned
from unladen.backends._gpu.cuda_like.streams import Event, Stream
from unladen.backends._gpu.dispatch import Grid, Groups, Lowered
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import Size, Step, Words
from unladen.backends._gpu.target import Range
from unladen.backends.base import PlacedKV, Segment
from unladen.errors import Cancelled
from unladen.graph.batch import SizeClass

LAUNCHES_AT_ONCE = 24
"""How many launches of a prefill are started together. It can be cancelled between them."""
MOST_SIZES = 32
"""How many sizes of decode steps in one class are kept as they were recorded."""
UPLOADS_AT_ONCE = 2
"""How many steps' words are in pinned memory: the host writes one while another is copied."""
RELAXED = 2
"""The mode of a recording that other threads and streams don't disturb."""
EARLY_START = 6
"""The attribute of a launch that may begin before the one before it ends
(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION of cuda.h). A kernel with the constant PDL
waits by itself."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_int * 16)]


class _Launch(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [("sizes", ctypes.c_uint * 6), ("shared_bytes", ctypes.c_uint),
                ("stream", c_void_p), ("attributes", ctypes.POINTER(_Attribute)),
                ("n_attributes", ctypes.c_uint)]


@dataclass(frozen=True, slots=True)
class Bound:
    """A kernel with its arguments, the threads of a workgroup, and the grid."""

    kernel: Kernel
    arguments: Arguments
    threads: int
    grid: Grid
    is_early: bool


class Recording:
    """A decode step's launches as one graph of the driver."""

    def __init__(self, gpu: Gpu, launches: Sequence[tuple[Bound, Groups]]) -> None:
        self.context, self.handle, graph = gpu.context, c_void_p(), c_void_p()
        context, stream = gpu.context, gpu.recorded
        with context.recording():
            context.call("begin_capture", stream.handle, RELAXED, device=gpu.name)
            try:
                try:
                    for bound, groups in launches:
                        start(gpu, bound, groups, stream)
                finally:
                    context.call("end_capture", stream.handle, ctypes.byref(graph),
                                 device=gpu.name)
                context.call("instantiate", ctypes.byref(self.handle), graph, 0, device=gpu.name)
            finally:
                if graph:
                    context.driver.functions["destroy_graph"](graph)

    @forks.unless_ending
    def __del__(self) -> None:
        if self.handle:
            context, handle = self.context, self.handle
            context.later(lambda: context.call("destroy_recorded", handle))


def start(gpu: Gpu, bound: Bound, groups: Groups, stream: Stream) -> None:
    """Start a kernel, or record that it starts."""
    function, places = bound.kernel.function, bound.arguments.places
    nbytes = bound.kernel.source.launched_bytes
    if bound.is_early:
        attribute = _Attribute(EARLY_START, b"", (ctypes.c_int * 16)(1))
        how = _Launch((ctypes.c_uint * 6)(*groups, bound.threads, 1, 1), nbytes,
                      stream.handle, ctypes.pointer(attribute), 1)
        gpu.context.call("launch_with", ctypes.byref(how), function, places, None, device=gpu.name)
        return
    gpu.context.call("launch", function, *groups, bound.threads, 1, 1, nbytes, stream.handle,
                     places, None, device=gpu.name)


class CudaProgram:
    """A compiled segment. ``recorded``: the decode steps, by their class and size."""

    def __init__(self, gpu: Gpu, segment: Segment, lowered: Lowered) -> None:
        self.gpu, self.batch, self.lowered = gpu, segment.batch, lowered
        self.cancelled = False
        self.done: Event | None = None
        self.awaits: list[Event] = []
        self.recorded: dict[SizeClass, dict[Size, Recording]] = {}
        self.step = Step(segment.batch, segment.limits, lowered.tables, lowered.n_kv_heads,
                         lowered.tile_tokens, lowered.split_keys)
        nbytes = self.step.words.nbytes
        self.words = Memory(gpu, nbytes)
        self._staged = [pinned(gpu, nbytes) for _ in range(UPLOADS_AT_ONCE)]
        words = Range(self.words, 0, nbytes)
        # On the devices that lack the function, no kernel has the constant.
        self.dispatches = []
        for d, kernel in zip(lowered.dispatches, gpu.kernels(lowered.dispatches), strict=True):
            arguments = gpu.arguments(kernel.source, {**d.ranges, "step": words})
            self.dispatches.append(Bound(kernel, arguments, d.threads, d.grid,
                                         bool(d.constants.get("PDL"))))
        self._caches = [_Cache.of(kv) for kv in segment.kv.values()]
        self._meet()

    def _meet(self) -> None:
        """Tell the memories of this program, and make those usable that don't grow with the
        batch."""
        with self.gpu.lock:
            growing = {id(m) for cache in self._caches for m, _ in cache.memories}
            memories = {id(m): m for bound in self.dispatches for m in bound.arguments.memories}
            self.gpu.context.enter()
            for key, memory in memories.items():
                if key not in growing:
                    memory.reach(memory.nbytes)
                memory.use(self)

    def run(self) -> None:
        """Upload and start the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        gpu, (words, size) = self.gpu, self.step.pack()
        with gpu.lock:
            gpu.context.enter()
            for cache in self._caches:
                cache.reach(self.batch.block_table[:self.batch.n_seqs])
            staged = self._stage(words)
        try:
            with gpu.lock:
                gpu.context.enter()
                for event in self.awaits:
                    gpu.compute.wait_for(event)
                self.awaits.clear()
                self._upload(staged, words.nbytes)
                if size.is_decode:
                    self._replay(size)
            if not size.is_decode:
                self._prefill(self._launches(size))
        except BaseException:
            # What was started runs all the same.
            if gpu.context.is_usable:
                self._end(staged)
            raise
        self._end(staged)

    def _prefill(self, launches: Sequence[tuple[Bound, Groups]]) -> None:
        before: Event | None = None
        for i in range(0, len(launches), LAUNCHES_AT_ONCE):
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            event = self._start(launches[i:i + LAUNCHES_AT_ONCE])
            if before is not None:
                # Two groups run at a time: they keep the device busy, and a cancel waits only for
                # these two.
                before.wait()
            before = event

    def _end(self, staged: Pinned) -> None:
        """Later work comes after what was started, and so does the next use of ``staged``."""
        gpu = self.gpu
        with gpu.lock:
            gpu.context.enter()
            self.done = staged.event = gpu.compute.record()

    def _stage(self, words: Words) -> Pinned:
        """Pinned memory with the step's words."""
        staged = self._staged.pop(0)
        self._staged.append(staged)
        staged.wait()
        staged.data[:words.nbytes] = words.view(np.uint8)
        return staged

    def _upload(self, staged: Pinned, nbytes: int) -> None:
        """Upload the step's words, and the tokens that the step before chose."""
        gpu, context = self.gpu, self.gpu.context
        context.call("upload", self.words.address, staged.address, nbytes, gpu.compute.handle,
                     device=gpu.name)
        if self.batch.continues:
            chosen = self.lowered.chosen
            assert chosen is not None
            context.call("copy", self.words.address + self.step.tokens_offset,
                         chosen.buffer.address + chosen.offset, 4 * self.batch.n_tokens,
                         gpu.compute.handle, device=gpu.name)

    def _replay(self, size: Size) -> None:
        alike = self.recorded.setdefault(self.batch.size_class, {})
        if size not in alike:
            launches = self._launches(size)
            if not launches:
                return
            if len(alike) == MOST_SIZES:
                del alike[next(iter(alike))]
            alike[size] = Recording(self.gpu, launches)
        self.gpu.context.call("launch_graph", alike[size].handle, self.gpu.compute.handle,
                              device=self.gpu.name)

    def _launches(self, size: Size) -> list[tuple[Bound, Groups]]:
        grids = ((bound, bound.grid(size)) for bound in self.dispatches)
        return [(bound, groups) for bound, groups in grids if groups is not None]

    def _start(self, launches: Sequence[tuple[Bound, Groups]]) -> Event:
        gpu = self.gpu
        with gpu.lock:
            gpu.context.enter()
            for bound, groups in launches:
                start(gpu, bound, groups, gpu.compute)
            return gpu.compute.record()

    @forks.unless_ending
    def __del__(self) -> None:
        # What the last run still uses isn't touched by others before it is done.
        if self.done is not None:
            self.gpu.context.later(self.gpu.compute.wait)


@dataclass(frozen=True, slots=True)
class _Cache:
    """The cache of a layer: memory that grows, each with the bytes of a block."""

    memories: Sequence[tuple[Growing, int]]
    first_column: int
    n_blocks: int

    @classmethod
    def of(cls, kv: PlacedKV) -> _Cache:
        """The cache of ``kv``."""
        layout = kv.layout
        memories = [(part.buffer, -(-buffer.nbytes // layout.n_blocks))
                    for buffer in map(of_gpu, (kv.k, kv.v)) for part in buffer.parts
                    if isinstance(part.buffer, Growing)]
        return cls(memories, layout.first_column, layout.n_blocks)

    def reach(self, table: Words) -> None:
        """Make the blocks of a step's block table usable."""
        if self.memories:
            columns = table[:, self.first_column:]
            n = min(int(columns.max(initial=0)) + 1, self.n_blocks)
            for memory, block_bytes in self.memories:
                memory.reach(min(n * block_bytes, memory.nbytes))
