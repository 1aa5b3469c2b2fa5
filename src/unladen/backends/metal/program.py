"""A compiled segment, which every step encodes into one command buffer, a prefill into several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unladen.backends._gpu.dispatch import Dispatch, Grid, Lowered
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import Range
from unladen.backends.metal import objc
from unladen.backends.metal.device import Commands, Gpu, Memory, copy_within
from unladen.backends.metal.objc import Object, send
from unladen.errors import Cancelled
from unladen.graph.batch import Batch, SizeClass
from unladen.types import Limits

DISPATCHES_AT_ONCE = 24
"""How many dispatches of a prefill are started together. It can be cancelled between them."""
MOST_SIZES = 32
"""For how many sizes of steps in one class the grids are kept."""
STEPS_AHEAD = 3
"""Steps whose words are in memory at the same time."""
CONCURRENT = 1
"""MTLDispatchTypeConcurrent: dispatches run together if there is no barrier between them."""
BARRIER_BUFFERS = 1
"""MTLBarrierScopeBuffers."""

Place = tuple[int, int, int]
"""A buffer of Metal, and the first byte and the end of a range in it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A dispatch with its arguments by number: ``buffers`` (the offset in a buffer; None: the
    step's words) and ``structs``; ``reads`` and ``writes`` are what must be in order."""

    pipeline: Object
    buffers: Sequence[tuple[int, Memory | None, int]]
    structs: Sequence[tuple[int, bytes]]
    reads: Sequence[Place]
    writes: Sequence[Place]
    threads: int
    grid: Grid


@dataclass(frozen=True, slots=True)
class Started:
    """A dispatch in a step of some size. ``waits``: it reads or writes what one before writes, or
    writes what one before reads, since the last that waited."""

    bound: Bound
    groups: objc.Size
    threads: objc.Size
    waits: bool


@dataclass(slots=True)
class Words:
    """Memory for a step's words, and the commands that read it."""

    memory: Memory
    readers: list[Commands] = field(default_factory=list)


def meets(some: Iterable[Place], others: Sequence[Place]) -> bool:
    """Whether two ranges have a byte in common."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in some for b in others)


@dataclass(slots=True)
class MetalProgram:
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
    words: list[Words] = field(init=False)
    n_run: int = 0

    def __post_init__(self) -> None:
        self.step = Step(self.batch, self.limits, self.lowered.tables, self.lowered.n_kv_heads,
                         self.lowered.tile_tokens, self.lowered.split_keys)
        n = self.step.words.nbytes
        self.words = [Words(Memory(self.gpu, n)) for _ in range(STEPS_AHEAD)]
        self.dispatches = [self._bound(d) for d in self.lowered.dispatches]

    def _bound(self, d: Dispatch) -> Bound:
        compiled = self.gpu.compiled(d.kernel, d.quant, d.constants)
        ranges: Mapping[str, Range | bytes] = d.ranges
        if compiled.source.grid:
            ranges = {**ranges, "grid": self.gpu.grid(compiled.source.grid)}
        buffers: list[tuple[int, Memory | None, int]] = []
        structs: list[tuple[int, bytes]] = []
        reads: list[Place] = []
        writes: list[Place] = []
        for i, binding in enumerate(compiled.source.bindings):
            what = ranges.get(binding.name)
            if what is None:
                assert binding.name == "step", binding
                buffers.append((i, None, 0))
            elif isinstance(what, bytes):
                structs.append((i, what))
            else:
                memory, start = what.buffer, what.buffer.base + what.offset
                buffers.append((i, memory, start))
                place = memory.handle, start, start + what.nbytes
                (writes if binding.kind == "out" else reads).append(place)
        return Bound(compiled.pipeline, buffers, structs, reads, writes, d.threads, d.grid)

    def run(self) -> None:
        """Encode and start the step in the batch. Raises :class:`Cancelled`."""
        self.cancelled = False
        packed, size = self.step.pack()
        words = self.words[self.n_run % STEPS_AHEAD]
        self.n_run += 1
        for readers in words.readers:
            self.gpu.wait_for(readers)
        words.readers.clear()
        words.memory.bytes(0, packed.nbytes)[:] = packed.view(np.uint8)
        before: Commands | None = None
        for i, group in enumerate(self._groups(size)):
            if self.cancelled:
                raise Cancelled("the step was cancelled")
            with self.gpu.commands(self) as commands:
                if i == 0 and self.batch.continues:
                    self._take_chosen(commands, words.memory)
                self._encode(commands, group, words.memory)
            words.readers.append(commands)
            if before is not None:
                # Two groups run at a time: they keep the device busy, and a cancel waits only for
                # these two.
                self.gpu.wait_for(before)
            before = None if size.is_decode else commands

    def _take_chosen(self, commands: Commands, words: Memory) -> None:
        chosen = self.lowered.chosen
        assert chosen is not None
        copy_within(commands, words, self.step.tokens_offset, chosen.buffer, chosen.offset,
                    4 * self.batch.n_tokens)

    def _encode(self, commands: Commands, group: Sequence[Started], words: Memory) -> None:
        encoder = commands.object.send("computeCommandEncoderWithDispatchType:", CONCURRENT)
        try:
            self._dispatch(encoder, group, words)
        finally:
            send(encoder, "endEncoding")  # Metal ends a process that frees an encoder before

    def _dispatch(self, encoder: int, group: Sequence[Started], words: Memory) -> None:
        # What is set stays set, so that only differences are sent.
        now: dict[int, object] = {}
        for started in group:
            bound = started.bound
            if started.waits:
                send(encoder, "memoryBarrierWithScope:", BARRIER_BUFFERS)
            send(encoder, "setComputePipelineState:", bound.pipeline.address)
            for i, memory, offset in bound.buffers:
                handle = (memory or words).handle
                if now.get(i) != (handle, offset):
                    now[i] = handle, offset
                    send(encoder, "setBuffer:offset:atIndex:", handle, offset, i)
            for i, data in bound.structs:
                if now.get(i) != data:
                    now[i] = data
                    send(encoder, "setBytes:length:atIndex:", data, len(data), i)
            send(encoder, "dispatchThreadgroups:threadsPerThreadgroup:", started.groups,
                 started.threads)

    def _groups(self, size: Size) -> list[list[Started]]:
        alike = self.sized.setdefault(self.batch.size_class, {})
        if size not in alike:
            if len(alike) == MOST_SIZES:
                del alike[next(iter(alike))]
            alike[size] = self._sized(size)
        return alike[size]

    def _sized(self, size: Size) -> list[list[Started]]:
        running = [(d, groups) for d in self.dispatches if (groups := d.grid(size)) is not None]
        most = len(running) if size.is_decode else DISPATCHES_AT_ONCE
        return [list(in_order(running[i:i + most])) for i in range(0, len(running), max(1, most))]


def in_order(running: Sequence[tuple[Bound, tuple[int, int, int]]]) -> Iterable[Started]:
    """The dispatches of one encoder, each with whether it waits for those before."""
    reads: list[Place] = []
    writes: list[Place] = []
    for bound, groups in running:
        waits = (meets([*bound.reads, *bound.writes], writes) or meets(bound.writes, reads))
        if waits:
            reads.clear()
            writes.clear()
        reads += bound.reads
        writes += bound.writes
        yield Started(bound, objc.Size(*groups), objc.Size(bound.threads, 1, 1), waits)
