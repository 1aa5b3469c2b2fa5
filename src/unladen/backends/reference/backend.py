"""Runs a segment node by node through the ops' own references."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unladen.backends._host import HostMemory, host, total_host_bytes
from unladen.backends.base import BackendOptions, Device, Program, Segment, device_number
from unladen.backends.reference.kv import PagedKV
from unladen.errors import Cancelled
from unladen.graph.batch import Batch
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops import get_op, registry
from unladen.graph.ops.base import Array, RefContext
from unladen.quants import dequantize

BANDWIDTH, FLOPS = 1e8, 1e8
"""Bytes and operations per second of NumPy in float64, roughly. They are low, so that placement
"auto" puts nothing here that another device can run."""


@dataclass(slots=True)
class ReferenceProgram:
    """A segment, and its weights by name in float64, decoded on first use; those that change while
    the plan lives are decoded in every step."""

    segment: Segment
    weights: dict[str, Array] = field(default_factory=dict)
    cancelled: bool = False


class ReferenceBackend(HostMemory):
    """The backend of the package. Its devices ``reference:0``, ``reference:1`` ... are logical: all
    compute in this process."""

    name = "reference"

    def why_none(self) -> str:
        return "the reference is for checking: ask for it by name (--device reference)"

    def open(self, device: str, options: BackendOptions) -> Device:
        return Device(f"reference:{device_number(device)}", "NumPy, float64", total_host_bytes(),
                      bandwidth=BANDWIDTH, flops=FLOPS, is_host=True, runs_ahead=True,
                      survives_fork=True)

    def supports(self, device: Device, node: Node) -> bool:
        return node.op in registry()

    def weight_format(self, device: Device, node: Node, weight: Weight) -> str | None:
        return weight.quant

    def compile(self, segment: Segment) -> Program:
        return ReferenceProgram(segment)

    def run(self, program: Program) -> None:
        assert isinstance(program, ReferenceProgram)
        segment, batch = program.segment, program.segment.batch
        program.cancelled = False
        if batch.continues:
            assert segment.chosen is not None
            batch.tokens[:batch.n_tokens] = self._view(segment, segment.chosen, batch)
        for node in segment.nodes:
            if program.cancelled:
                raise Cancelled("the step was cancelled")
            if node.op in batch.skip:
                continue
            inputs = [self._load(segment, value, batch) for value in node.inputs]
            state = PagedKV(segment.kv[node.state.layer]) if node.state else None
            weights = {role: self._weight(program, w) for role, w in node.weights.items()}
            slots = _slots(segment, node)
            results = get_op(node.op).reference(
                node, inputs, RefContext(batch, weights, state, slots=slots))
            for value, result in zip(node.outputs, results, strict=True):
                self._view(segment, value, batch)[...] = result

    def cancel(self, program: Program) -> None:
        assert isinstance(program, ReferenceProgram)
        program.cancelled = True

    def _weight(self, program: ReferenceProgram, weight: Weight) -> Array:
        if weight.name not in program.weights or weight.private:
            placed = program.segment.weights[weight.name]
            raw = host(placed.buffer).data[placed.offset:]
            n_bytes = weight.nbytes_in(placed.quant)
            program.weights[weight.name] = dequantize(
                placed.quant, raw[:n_bytes], weight.shape).astype(np.float64)
        return program.weights[weight.name]

    def _load(self, segment: Segment, value: Value, batch: Batch) -> Array:
        if value in segment.batch_inputs:
            array: Array = getattr(batch, segment.batch_inputs[value])
            return array[:batch.size(str(value.shape[0]))]
        return self._view(segment, value, batch).astype(np.float64)

    def _view(self, segment: Segment, value: Value, batch: Batch) -> Array:
        shape = tuple(batch.size(s) if isinstance(s, str) else s for s in value.shape)
        n_bytes = 4 * int(np.prod(shape))
        offset = segment.offsets[value]
        return host(segment.arena).data[offset:offset + n_bytes].view(value.numpy).reshape(shape)


def _slots(segment: Segment, node: Node) -> Array | None:
    """The recurrent state of ``node``, float32 [n_slots, state_size]."""
    if node.name not in segment.slots:
        return None
    return host(segment.slots[node.name]).data.view(np.float32).reshape(segment.limits.n_slots, -1)
