"""A backend for tests that runs the C family's kernels thread by thread, and finds their faults."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backends._gpu.emulated import Emulated, EmulatedBackend
from emulator import build
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Dispatch, Groups, Lowered
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import Bytes, Range
from unladen.backends.base import BackendOptions, Buffer, Device, Program, Segment
from unladen.quants import codebook

ORDERS = ("up", "down", "shuffled")
"""The orders in which threads and workgroups run."""
KINDS = {"in": 0, "out": 1, "struct": 2}
FEATURES = frozenset({"subgroups", "int_dot"})


class Argument(ctypes.Structure):
    """``Argument`` of types.h."""

    _fields_ = [("data", ctypes.c_void_p), ("n_bytes", ctypes.c_uint64), ("kind", ctypes.c_uint32),
                ("cells", ctypes.c_void_p)]


class KernelFault(AssertionError):
    """What a kernel did that no kernel may do: a line for each fault."""


def run(source: c_texts.Source, memory: Mapping[str, Bytes], groups: Groups, threads: int,
        order: int, seed: int) -> None:
    """Run the kernel over the grid. ``memory``: the bytes of each argument. Raises
    :class:`KernelFault`."""
    entry, runtime = build.kernel(source.text), build.runtime()
    arguments = (Argument * len(source.bindings))(*(
        Argument(memory[b.name].ctypes.data, memory[b.name].nbytes, KINDS[b.kind], None)
        for b in source.bindings))
    n = runtime.run_grid(entry, arguments, len(arguments), (ctypes.c_uint32 * 3)(*groups),
                         threads, order, seed)
    if n:
        raise KernelFault("\n".join(runtime.fault_text(i).decode() for i in range(n)))


def step_bytes(segment: Segment) -> dict[tuple[int, int, int], int]:
    """The bytes that each value of the segment has in this step, by the range that kernels bind for
    it: the memory's address, where the range begins, and its length in the largest step. Values
    that take turns in one range have as many as the largest."""
    arena, found = of_gpu(segment.arena), dict[tuple[int, int, int], int]()
    for value, offset in segment.offsets.items():
        bound = arena.range(offset, 4 * segment.limits.count(value.shape))
        key = id(bound.buffer), bound.offset, bound.nbytes
        sizes = (segment.batch.size(n) if isinstance(n, str) else n for n in value.shape)
        found[key] = max(found.get(key, 0), 4 * math.prod(sizes))
    return found


@dataclass
class EmulatorProgram:
    """A segment's dispatches. Each run takes the next order. A kernel is given just the
    rows that a value has in the step, so what it reads or writes beyond them is out of bounds."""

    segment: Segment
    lowered: Lowered
    step: Step
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    n_run: int = 0

    def run(self) -> Size:
        words, size = self.step.pack()
        given = step_bytes(self.segment)
        for d in self.lowered.dispatches:
            groups = d.grid(size)
            if groups is not None:
                memory = {name: _bytes(r, given) for name, r in d.ranges.items()}
                self._dispatch(d, groups, {"step": words.view(np.uint8), **memory})
        self.n_run += 1
        return size

    def _dispatch(self, d: Dispatch, groups: Groups, memory: dict[str, Bytes]) -> None:
        source = c_texts.assemble(d.kernel, d.quant, d.constants, build.PORT)
        if source.grid:
            memory["grid"] = np.ascontiguousarray(codebook(source.grid)).view(np.uint8).reshape(-1)
        order, seed = self.n_run % len(ORDERS), int(self.rng.integers(1 << 31))
        try:
            run(source, memory, groups, d.threads, order, seed)
        except KernelFault as error:
            raise KernelFault(f"{d.kernel} {d.quant} {dict(d.constants)}, threads "
                              f"{ORDERS[order]}:\n{error}") from None


def _bytes(what: Range | bytes, given: Mapping[tuple[int, int, int], int]) -> Bytes:
    if isinstance(what, bytes):
        return np.frombuffer(what, np.uint8).copy()
    n_bytes = given.get((id(what.buffer), what.offset, what.nbytes), what.nbytes)
    found: Bytes = what.buffer[what.offset:what.offset + n_bytes]
    return found


class EmulatorBackend(EmulatedBackend):
    """The emulator's devices. ``UNLADEN_EMULATOR_FEATURES``: the abilities that kernels may use."""

    name = "emulator"

    def __init__(self, features: frozenset[str] | None = None, **target: Any) -> None:
        if features is None:
            names = os.environ.get("UNLADEN_EMULATOR_FEATURES", "").split(",")
            features = FEATURES & set(names)
        super().__init__(c_texts, features=features, name="emulator:0", alignment=16, **target)

    def open(self, device: str, options: BackendOptions) -> Device:
        build.compiler()
        return self.target.device

    def alloc(self, device: Device, nbytes: int, use: Any, row_bytes: int = 1) -> Buffer:
        return super().alloc(device, nbytes, use, row_bytes)

    def compile(self, segment: Segment) -> Program:
        lowered = lower(self.target, segment)
        step = Step(segment.batch, segment.limits, lowered.tables, lowered.n_kv_heads)
        return EmulatorProgram(segment, lowered, step)

    def run(self, program: Program) -> None:
        assert isinstance(program, EmulatorProgram)
        program.run()


__all__ = ["Emulated", "EmulatorBackend", "KernelFault", "of_gpu", "run"]
