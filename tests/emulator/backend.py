"""A backend for tests that runs the C family's kernels thread by thread, and finds their faults."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from backends._gpu.emulated import Emulated, EmulatedBackend
from emulator import build
from emulator.gaps import with_gaps
from unladen import backends
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.backend import FUSIONS
from unladen.backends._gpu.dispatch import Dispatch, Groups, Lowered
from unladen.backends._gpu.lowering import lower
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.step import Size, Step
from unladen.backends._gpu.target import WORKGROUP_BYTES, Bytes, Range
from unladen.backends._host import free_host_bytes, total_host_bytes
from unladen.backends.base import BackendOptions, Device, Program, Segment, device_number
from unladen.discover import PLUGIN_PATH
from unladen.errors import BackendNotInitialised
from unladen.quants import codebook
from unladen.schedule.trust.probe import fault

ORDERS = ("up", "down", "shuffled")
"""The orders in which threads and workgroups run."""
KINDS = {"in": 0, "out": 1, "struct": 2}
FEATURES = frozenset({"subgroups", "int_dot"})
KNOWN = FEATURES | {"mma", "wgmma", "pdl"}
FEATURES_VARIABLE, MODE_VARIABLE = "UNLADEN_EMULATOR_FEATURES", "UNLADEN_EMULATOR_MODE"
NOTHING: Mapping[str, Bytes] = MappingProxyType({})
SPEED = 1e7
"""Bytes and operations per second, about: nothing is placed here for speed."""


class Argument(ctypes.Structure):
    """``Argument`` of types.h."""

    _fields_ = [("data", ctypes.c_void_p), ("n_bytes", ctypes.c_uint64), ("kind", ctypes.c_uint32),
                ("cells", ctypes.c_void_p), ("there", ctypes.c_void_p)]


class KernelFault(AssertionError):
    """What a kernel did that no kernel may do: a line for each fault."""


def run(source: c_texts.Source, memory: Mapping[str, Bytes], groups: Groups, threads: int,
        order: int, seed: int, mode: build.Mode = build.CHECKED,
        workgroup_bytes: int = WORKGROUP_BYTES, there: Mapping[str, Bytes] = NOTHING) -> None:
    """Run the kernel over the grid. ``memory``: the bytes of each argument. ``workgroup_bytes``:
    the memory that a workgroup can have. ``there``: for each word of an argument whether it is part
    of anything. Raises :class:`KernelFault`."""
    entry, runtime = build.kernel(source.text, mode), build.runtime()
    arguments = (Argument * len(source.bindings))(*(
        Argument(memory[b.name].ctypes.data, memory[b.name].nbytes, KINDS[b.kind], None,
                 there[b.name].ctypes.data if b.name in there else None)
        for b in source.bindings))
    n = runtime.run_grid(entry, arguments, len(arguments), (ctypes.c_uint32 * 3)(*groups),
                         threads, order, seed, mode.checks, workgroup_bytes)
    if n:
        raise KernelFault("\n".join(runtime.fault_text(i).decode() for i in range(n)))


def step_bytes(segment: Segment) -> dict[tuple[int, int, int], int]:
    """The bytes that each value of the segment has in this step, by the range that kernels bind for
    it: the memory's address, where the range begins, and its length in the largest step. Values
    that take turns in one range have as many as the largest."""
    arena, found = of_gpu(segment.arena), dict[tuple[int, int, int], int]()
    for value, offset in segment.offsets.items():
        if value in segment.stored:
            continue  # in another form, or not at all
        bound = arena.range(offset, 4 * segment.limits.count(value.shape))
        key = id(bound.buffer), bound.offset, bound.nbytes
        sizes = (segment.batch.size(n) if isinstance(n, str) else n for n in value.shape)
        found[key] = max(found.get(key, 0), 4 * math.prod(sizes))
    return found


@dataclass
class EmulatorProgram:
    """A segment's dispatches, each of which is compiled for the first step that needs it. In the
    checking mode each run takes the next order, and a kernel is given just the rows that a value
    has in the step, so what it reads or writes beyond them is out of bounds. The arrays of the step
    have gaps between them. The first order and the seeds follow from NumPy's own generator, and so
    from the seed that a test prints. ``ran``: the dispatches that any step so far needed, by
    number."""

    target: Emulated
    segment: Segment
    lowered: Lowered
    step: Step
    mode: build.Mode
    rng: np.random.Generator = field(init=False)
    n_run: int = field(init=False)
    ran: dict[int, Dispatch] = field(default_factory=dict)
    sources: Sequence[c_texts.Source] = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(np.random.randint(1 << 31))
        self.n_run = int(self.rng.integers(len(ORDERS)))
        self.sources = [self._source(d) for d in self.lowered.dispatches]

    def run(self) -> Size:
        words, size = self.step.pack()
        if self.step.batch.continues:
            assert self.lowered.chosen is not None
            at = self.step.tokens_offset
            tokens = _bytes(self.lowered.chosen, {})[:4 * self.step.batch.n_tokens]
            words.view(np.uint8)[at:at + tokens.nbytes] = tokens
        given, there = dict[tuple[int, int, int], int](), NOTHING
        if self.mode.checks:
            given = step_bytes(self.segment)
            words, of_arrays = with_gaps(self.step, words)
            there = {"step": of_arrays}
        needed = {i: (d, groups) for i, d in enumerate(self.lowered.dispatches)
                  if (groups := d.grid(size)) is not None}
        build.prepare((self.sources[i].text for i in needed if i not in self.ran), self.mode)
        for i, (d, groups) in needed.items():
            self.ran[i] = d
            memory = {name: _bytes(r, given) for name, r in d.ranges.items()}
            self._dispatch(i, d, groups, {**memory, "step": words.view(np.uint8)}, there)
        self.n_run += 1
        return size

    def _source(self, d: Dispatch) -> c_texts.Source:
        return c_texts.assemble(d.kernel, d.quant, d.constants, self.mode.port)

    def _dispatch(self, i: int, d: Dispatch, groups: Groups, memory: dict[str, Bytes],
                  there: Mapping[str, Bytes]) -> None:
        # Tests that plant faults change the texts between runs.
        source = self._source(d) if self.mode.checks else self.sources[i]
        if source.grid:
            memory["grid"] = np.ascontiguousarray(codebook(source.grid)).view(np.uint8).reshape(-1)
        order = self.n_run % len(ORDERS) if self.mode.checks else 0
        seed, target = int(self.rng.integers(1 << 31)), self.target
        # A launch that gives memory may give more than a compiler does.
        most = max(target.workgroup_bytes, target.launched_bytes if source.launched_bytes else 0)
        try:
            run(source, memory, groups, d.threads, order, seed, self.mode, most, there)
        except KernelFault as error:
            raise KernelFault(f"{d.kernel} {d.quant} {dict(d.constants)}, threads "
                              f"{ORDERS[order]}, seed {seed}:\n{error}") from None


def _bytes(what: Range | bytes, given: Mapping[tuple[int, int, int], int]) -> Bytes:
    if isinstance(what, bytes):
        return np.frombuffer(what, np.uint8).copy()
    n_bytes = given.get((id(what.buffer), what.offset, what.nbytes), what.nbytes)
    found: Bytes = what.buffer[what.offset:what.offset + n_bytes]
    return found


class EmulatorBackend(EmulatedBackend):
    """The emulator's devices. The environment variable :data:`FEATURES_VARIABLE` names the
    abilities that kernels may use, :data:`MODE_VARIABLE` a mode of :data:`build.MODES`."""

    name = "emulator"

    def __init__(self, features: frozenset[str] | None = None, mode: build.Mode | None = None,
                 **target: Any) -> None:
        if features is None:
            features = KNOWN & set(os.environ.get(FEATURES_VARIABLE, "").split(","))
        # Kernels without matrix units are for every device.
        most = {"workgroup_bytes": WORKGROUP_BYTES} if "mma" not in features else {}
        self.mode = mode or build.MODES[os.environ.get(MODE_VARIABLE, "checked")]
        super().__init__(c_texts, features=features, name="emulator:0", alignment=16,
                         **{**most, **target})

    def devices(self) -> list[Device]:
        there = self.target.device
        used = tuple((name, name in self.target.features) for name in sorted(KNOWN))
        return [replace(there, description="threads of kernels as fibers",
                        memory_bytes=total_host_bytes(), bandwidth=SPEED, flops=SPEED,
                        fusions=FUSIONS, runs_ahead=True, features=used)]

    def open(self, device: str, options: BackendOptions) -> Device:
        build.compiler()
        (there,) = self.devices()
        if device_number(device):
            raise BackendNotInitialised(f"{device}: the emulator has one device")
        return there

    def free_bytes(self, device: Device) -> int:
        return free_host_bytes()

    def compile(self, segment: Segment) -> Program:
        lowered = lower(self.target, segment)
        step = Step(segment.batch, segment.limits, lowered.tables, lowered.n_kv_heads,
                    lowered.tile_tokens, lowered.split_keys)
        return EmulatorProgram(self.target, segment, lowered, step, self.mode)

    def run(self, program: Program) -> None:
        assert isinstance(program, EmulatorProgram)
        program.run()


@contextmanager
def plugged_in() -> Iterator[None]:
    """The emulator is a backend for models meanwhile, a new one each time; its plug-in folder is
    found. What trials found before, perhaps of a planted fault, is forgotten."""
    caches = (backends.registry, backends.found, backends._scanned, backends._created,
              backends._named, fault)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PLUGIN_PATH, str(build.HERE / "plugin"))
            for cache in caches:
                cache.cache_clear()
            yield
    finally:
        for cache in caches:
            cache.cache_clear()


__all__ = ["Emulated", "EmulatorBackend", "KernelFault", "of_gpu", "plugged_in", "run"]
