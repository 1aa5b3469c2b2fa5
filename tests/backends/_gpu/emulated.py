"""A second GPU backend: memory of the host, dispatches that are kept, and a few kernels in Python.

It takes any family of kernel texts. It can run the functions of ``kernels.py``, a family of a few
kernels. Where ``runs_all``, that family claims a text for every kernel and block format, so that
everything can be lowered, and nothing of it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends._gpu.kernels import KERNELS, Call
from unladen.backends._gpu.backend import GpuBackend
from unladen.backends._gpu.dispatch import Lowered
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.lowering._tiles import PARTS
from unladen.backends._gpu.memory import GpuBuffer, of_gpu, part_bytes
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import Bytes, Family, Range
from unladen.backends.base import BackendOptions, Buffer, Device, Program, Segment, Use
from unladen.quants import in_tiles
from unladen.quants.tiles import ROWS

WHOLE = 1 << 30
"""More bytes than any test binds."""


@dataclass(frozen=True)
class Texts:
    """A family: the kernels of ``kernels.py``, which read F32, or all there could be."""

    runs_all: bool

    def has_kernel(self, kernel: str) -> bool:
        return self.runs_all or kernel in KERNELS

    def has_format(self, quant: str) -> bool:
        return self.runs_all or quant == "F32"

    def has_codes(self, quant: str) -> bool:
        return (self.runs_all and bool(quant) and quant not in PARTS
                and in_tiles(quant, (ROWS, 256)) is not None)


@dataclass
class Emulated:
    """A target whose buffers are arrays of bytes."""

    family: Family
    features: frozenset[str] = frozenset()
    name: str = "emulated:0"
    alignment: int = 4
    max_binding: int = WHOLE
    max_buffer: int = WHOLE
    max_storage_buffers: int = 16
    workgroup_bytes: int = 48 << 10
    launched_bytes: int = 227 << 10
    forgone: set[tuple[str, frozenset[str]]] = field(default_factory=set)

    @property
    def device(self) -> Device:
        return Device(self.name, "arrays of bytes", 0)

    def upload(self, data: Bytes) -> Range:
        return Range(data.copy(), 0, data.nbytes)


@dataclass
class EmulatedProgram:
    """A segment's dispatches, and the words that they read."""

    lowered: Lowered
    step: Step

    def run(self) -> Size:
        words, size = self.step.pack()
        for d in self.lowered.dispatches:
            groups = d.grid(size)
            if groups is not None:
                KERNELS[d.kernel](Call(d, words, groups))
        return size


class EmulatedBackend(GpuBackend):
    """See the module."""

    name = "emulated"

    def __init__(self, family: Family, **target: Any) -> None:
        self.target = Emulated(family, **target)
        self.family = family

    def devices(self) -> list[Device]:
        return [self.target.device]

    def gpu(self, device: str) -> Emulated:
        assert device == self.target.name
        return self.target

    def open(self, device: str, options: BackendOptions) -> Device:
        return self.target.device

    def alloc(self, device: Device, nbytes: int, use: Use, row_bytes: int = 1) -> Buffer:
        part = part_bytes(self.target, nbytes, row_bytes)
        sizes = [min(part, nbytes - at) for at in range(0, nbytes, part)]
        # As on a device, whole words, of which a kernel may write the last one.
        parts = [Range(np.zeros(-(-n // 4) * 4, np.uint8), 0, n) for n in sizes]
        return GpuBuffer(self.target, nbytes, tuple(parts), part)

    def write(self, dst: Buffer, src: Bytes, offset: int = 0) -> None:
        for part, at, start, n in of_gpu(dst).pieces(offset, src.nbytes):
            part.buffer[at:at + n] = src[start:start + n]

    def read(self, src: Buffer, nbytes: int, offset: int = 0) -> Bytes:
        found = [part.buffer[at:at + n] for part, at, _, n in of_gpu(src).pieces(offset, nbytes)]
        return np.concatenate([np.empty(0, np.uint8), *found])

    def compile(self, segment: Segment) -> Program:
        lowered = lower(self.target, segment)
        step = Step(segment.batch, segment.limits, lowered.tables, lowered.n_kv_heads,
                    lowered.tile_tokens, lowered.split_keys)
        return EmulatedProgram(lowered, step)

    def run(self, program: Program) -> None:
        assert isinstance(program, EmulatedProgram)
        program.run()


def memory_of(ranges: Mapping[str, Range | bytes]) -> dict[str, Range]:
    """Those that are ranges of memory."""
    return {name: r for name, r in ranges.items() if isinstance(r, Range)}
