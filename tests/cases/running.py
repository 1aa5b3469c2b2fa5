"""Runs a case on a backend, and on paper."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from cases import libggml
from cases.base import HOST, Array, Bytes, Case
from unladen import quants
from unladen.backends import registry
from unladen.backends._host import HostBuffer
from unladen.backends.base import Backend, BackendOptions, Buffer, Device, Placed, PlacedKV, Segment
from unladen.backends.cpu import CpuBackend
from unladen.backends.cpu.features import ISA_VARIABLE
from unladen.backends.reference.kv import PagedKV
from unladen.errors import BackendNotInitialised
from unladen.graph.graph import Value
from unladen.graph.ops import get_op
from unladen.graph.ops.base import EPS32, Recurrent, RefContext


def computing() -> list[str]:
    """Every backend that computes, the CPU once for each instruction-set level of this machine."""
    from unladen._native import cpu

    names = [name for name in registry() if name not in ("null", "cpu")]
    return sorted(names) + [f"cpu-{level}" for level in cpu.levels()]


@contextmanager
def opened(name: str) -> Iterator[Backend]:
    """The backend ``name`` of :func:`computing`, or skip where it has no device."""
    base, _, level = name.partition("-")
    if level:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(os.environ, ISA_VARIABLE, level)
            backend: Backend = CpuBackend()
        yield backend
        return
    backend = registry()[base]
    try:
        if base == "ggml":
            libggml.load()
        device_of(backend)
    except BackendNotInitialised:
        pytest.skip(f"{base}: {backend.why_none()}")
    yield backend


def device_of(backend: Backend, options: BackendOptions | None = None) -> Device:
    """The first device of ``backend``; raises :class:`BackendNotInitialised`."""
    names = [d.name for d in backend.devices()] or [backend.name]
    return backend.open(names[0], options or BackendOptions())


class Bench:
    """A case compiled on a backend; outputs and scratch hold NaN before every run."""

    def __init__(self, backend: Backend, case: Case, options: BackendOptions | None = None,
                 device: str = "") -> None:
        self.backend, self.case = backend, case
        options = options or BackendOptions()
        self.device = backend.open(device, options) if device else device_of(backend, options)
        self.offsets: dict[Value, int] = {}
        n_bytes = 0
        for value in (*case.inputs, *case.node.outputs):
            self.offsets[value] = n_bytes
            n_bytes += -(-4 * case.limits.count(value.shape) // 64) * 64
        scratch = n_bytes, backend.scratch_bytes(self.device, case.node, case.limits, options)
        self.arena = backend.alloc(self.device, sum(scratch) + 64, "arena")
        self._kv = {} if case.kv is None else self._place_kv(case.kv)
        self._slots = {} if case.slots is None else {
            case.node.name: backend.alloc(self.device, case.slots.nbytes, "kv")}
        self.placed = self._place_weights()
        segment = Segment(self.device, case.graph.nodes, self.arena, self.offsets,
                          case.batch_inputs(), scratch, self.placed, self._kv, self._slots,
                          case.limits, case.batch, options)
        self.program = backend.compile(segment)

    def run(self) -> list[Array]:
        """The outputs of the case's step."""
        backend, case = self.backend, self.case
        backend.write(self.arena, np.full(self.arena.nbytes, 0xff, np.uint8))
        for value, array in case.inputs.items():
            backend.write(self.arena, as_bytes(array), self.offsets[value])
        if case.kv is not None and case.node.state is not None:
            placed = self._kv[case.node.state.layer]
            for buffer, data in zip((placed.k, placed.v), case.kv, strict=True):
                backend.write(buffer, data)
        if case.slots is not None:
            backend.write(self._slots[case.node.name], as_bytes(case.slots))
        backend.run(self.program)
        return [self._read(value) for value in case.node.outputs]

    def cache(self) -> tuple[Bytes, Bytes]:
        """The bytes of K and V now."""
        (placed,) = self._kv.values()
        k, v = (self.backend.read(b, b.nbytes).copy() for b in (placed.k, placed.v))
        return k, v

    def slots(self) -> Array:
        """The recurrent state now, float32 [n_slots, state_size]."""
        assert self.case.slots is not None
        raw = self.backend.read(self._slots[self.case.node.name], self.case.slots.nbytes)
        return raw.view(np.float32).reshape(self.case.slots.shape).copy()

    def _read(self, value: Value) -> Array:
        shape = [self.case.batch.size(s) if isinstance(s, str) else s for s in value.shape]
        raw = self.backend.read(self.arena, 4 * int(np.prod(shape)), self.offsets[value])
        return raw.view(value.numpy).reshape(shape).copy()

    def _place_kv(self, kv: tuple[Bytes, Bytes]) -> dict[int, PlacedKV]:
        spec = self.case.node.state
        assert spec is not None
        k, v = (self.backend.alloc(self.device, data.nbytes, "kv") for data in kv)
        return {spec.layer: PlacedKV(spec, self.case.layout, k, v)}

    def _place_weights(self) -> dict[str, Placed]:
        placed = {}
        for weight in self.case.node.weights.values():
            quant = self.backend.weight_format(self.device, self.case.node, weight)
            assert quant is not None, f"{self.device.name} takes no {weight.quant}"
            raw = quants.convert(weight.quant, quant, self.case.weights[weight.name].reshape(-1),
                                 weight.shape)
            # Blocks may start anywhere: files align tensors, nothing aligns the rows of one.
            buffer: Buffer = self.backend.alloc(self.device, raw.nbytes + 32, "weights")
            self.backend.write(buffer, raw, 32)
            placed[weight.name] = Placed(weight, buffer, 32, quant)
        return placed


def as_bytes(array: Array) -> Bytes:
    """The bytes of ``array``."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def on_paper(case: Case, *, precise: bool = True) -> tuple[Sequence[Array], Sequence[Array],
                                                           tuple[Bytes, Bytes]]:
    """Outputs in float64, their bounds, and K and V after the step (empty without a cache)."""
    inputs, ctx, kv = _setting(case, precise=precise)
    op = get_op(case.node.op)
    outputs = op.reference(case.node, inputs, ctx)
    return outputs, op.error_bound(case.node, inputs, ctx), kv


def _setting(case: Case, *, precise: bool) -> tuple[list[Array], RefContext, tuple[Bytes, Bytes]]:
    weights = {role: quants.dequantize(w.quant, case.weights[w.name], w.shape).astype(np.float64)
               for role, w in case.node.weights.items()}
    state, k, v = None, np.zeros(0, np.uint8), np.zeros(0, np.uint8)
    if case.kv is not None and case.node.state is not None:
        k, v = (data.copy() for data in case.kv)
        state = PagedKV(PlacedKV(case.node.state, case.layout, HostBuffer(HOST, k),
                                 HostBuffer(HOST, v)))
    names = case.batch_inputs()
    inputs = [getattr(case.batch, names[value])[:case.batch.size(str(value.shape[0]))]
              if value in names else case.inputs[value].astype(np.float64)
              for value in case.node.inputs]
    slots = None if case.slots is None else case.slots.astype(np.float64)
    ctx = RefContext(case.batch, weights, state, {} if precise else case.act_block, slots)
    return inputs, ctx, (k, v)


def check_slots(case: Case, mine: Array, what: str) -> None:
    """The states that the step left must be within their bounds, other slots untouched."""
    inputs, ctx, _ = _setting(case, precise=True)
    op = get_op(case.node.op)
    assert isinstance(op, Recurrent) and ctx.slots is not None
    op.reference(case.node, inputs, ctx)
    bounds = op.state_bound(case.node, inputs, ctx)
    written = case.batch.state_out[:case.batch.n_seqs]
    excess = np.abs(mine[written] - ctx.slots[written]) - bounds - EPS32 * np.abs(mine[written])
    assert np.all(excess <= 0), f"{what}, {case.name}: states are off by {excess.max()} too much"
    others = np.setdiff1d(np.arange(len(mine)), written)
    np.testing.assert_array_equal(mine[others], ctx.slots[others], err_msg=case.name)


def check(case: Case, outputs: Sequence[Array], *, precise: bool, what: str) -> None:
    """Every element of every output must be within its bound."""
    expected, bounds, _ = on_paper(case, precise=precise)
    for y, wanted, bound in zip(outputs, expected, bounds, strict=True):
        assert y.shape == wanted.shape == np.broadcast_shapes(bound.shape, y.shape), what
        excess = np.abs(y - wanted) - bound
        worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), y.shape)
        assert np.all(excess <= 0), (
            f"{what}, {case.name}: y{list(map(int, worst))} = {y[worst]!r}, not {wanted[worst]!r} "
            f"+- {np.broadcast_to(bound, y.shape)[worst]!r}")
