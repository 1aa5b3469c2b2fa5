"""Turns nodes of the graph into native operations.

``csrc/ops/<op>.cc`` says what an op needs of its node. This module describes every node in the same
way: inputs and outputs in the graph's order, weights by role, attributes by name, and the addresses
of all. The native op refuses fields that it doesn't know.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unladen._native import cpu as native
from unladen.backends._host import host
from unladen.backends.base import Segment
from unladen.backends.cpu.joining import joined
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Node, Value, Weight
from unladen.graph.ops import get_op

Formats = Callable[[Node], Mapping[str, str | None]]
"""The formats that a node's weights have on the device, by role."""


class Operation(NamedTuple):
    """An op that the CPU runs. ``limit``: which nodes it takes, in words, "" for all of them."""

    limit: str
    needs_scratch: bool


@functools.cache
def operations() -> Mapping[str, Operation]:
    """The ops that have a kernel."""
    return {op: Operation(*found) for op, found in native.operations().items()}


def refusal(node: Node, formats: Formats) -> str:
    """Why there is no kernel for ``node``; "" where there is one."""
    operation = operations().get(node.op)
    if operation is None:
        return f"the CPU has no kernel of {node.op}"
    # Only kernels with a limit are asked, since describing a node takes 20 us.
    if not operation.limit:
        return ""
    described = _on_paper(node, formats(node))
    try:
        return native.refusal(described)
    except ValueError as error:
        raise _refused(error, node) from error


def scratch_bytes(node: Node, max_rows: int, level: str, formats: Formats, precise: bool) -> int:
    """Working memory that ``node`` needs in a step of at most ``max_rows`` tokens or outputs.

    ``level``: the instruction-set level of the kernels; ``precise``: activations stay float32.
    Raises :class:`UnsupportedOp` for a node that its kernel doesn't take as it is.
    """
    if not operations()[node.op].needs_scratch:
        return 0
    described = _on_paper(node, formats(node))
    try:
        return native.scratch_bytes(described, level, max_rows, precise)
    except ValueError as error:
        raise _refused(error, node) from error


def compile_segment(program: native.Program, segment: Segment) -> None:
    """Append every node of ``segment`` to ``program`` and bind it to the segment's batch.

    Raises :class:`UnsupportedOp` for a node that its kernel doesn't take as it is.
    """
    at = Addresses(segment)
    b = segment.batch
    program.bind_batch(
        index=_address(b.index), sees_to=_address(b.sees_to), seq_of=_address(b.seq_of),
        q_start=_address(b.q_start), kv_len=_address(b.kv_len),
        block_table=_address(b.block_table), table_stride=b.block_table.shape[1],
        state_in=_address(b.state_in), state_out=_address(b.state_out),
        adapter_of=_address(b.adapter_of))
    for node in segment.nodes:
        add(program, node, at)


def add(program: native.Program, node: Node, at: Addresses) -> None:
    """Append ``node`` to ``program``. Raises :class:`UnsupportedOp`."""
    if node.outputs and node.outputs[0] in at.joined.norms:
        return  # the product that reads this norm computes it
    described = at.described(node)
    try:
        program.add(described)
    except ValueError as error:
        raise _refused(error, node, at.segment.device.name) from error


class Addresses:
    """The addresses of a segment's values, weights and caches in this process."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        # The arena was laid out for the nodes that were joined then, so the same ones are joined
        # now.
        stored = segment.stored
        self.joined = joined(segment.nodes, frozenset(stored), lambda n: stored.get(n.inputs[0]))
        self._chosen_from = {n.inputs[0] for n in segment.nodes if n.op == "argmax"}
        self._arena = host(segment.arena).address
        self._scratch = self._arena + segment.scratch[0]

    def __call__(self, value: Value) -> int:
        """The address of ``value``, in the arena or in an array of the batch."""
        name = self.segment.batch_inputs.get(value)
        if name is not None:
            return _address(getattr(self.segment.batch, name))
        return self._arena + self.segment.offsets[value]

    def weight(self, weight: Weight) -> int:
        """The address of ``weight``."""
        placed = self.segment.weights[weight.name]
        return host(placed.buffer).address + placed.offset

    def described(self, node: Node) -> native.Node:
        """``node`` with all addresses that it needs."""
        norm = self.joined.norms.get(node.inputs[0]) if node.inputs else None
        slots = self.segment.slots.get(node.name)
        return native.Node(
            op=node.op, name=node.name,
            inputs=[_value(v, self(norm.inputs[0] if norm and v is node.inputs[0] else v))
                    for v in node.inputs],
            outputs=[_value(v, self(v)) for v in node.outputs],
            weights={role: (self.weight(w), self.segment.weights[w.name].quant, w.shape)
                     for role, w in node.weights.items()},
            attrs=node.attrs,
            slots=(host(slots).address, get_op(node.op).state_size(node)) if slots else None,
            kv=self._kv(node), scratch=self._scratch, joined=self._joined(node, norm),
            first_column=(0 if node.state is None else
                          self.segment.kv[node.state.layer].layout.first_column))

    def _kv(self, node: Node) -> native.KV | None:
        """The cache of the node's layer."""
        if node.state is None:
            return None
        placed = self.segment.kv[node.state.layer]
        spec, layout = placed.spec, placed.layout
        return native.KV(k=host(placed.k).address, v=host(placed.v).address,
                         k_type=layout.k_type.lower(), v_type=layout.v_type.lower(),
                         n_heads=spec.n_kv_heads, k_dim=spec.k_dim, v_dim=spec.v_dim,
                         block_tokens=layout.block_tokens)

    def _joined(self, node: Node, norm: Node | None) -> native.Joined | None:
        """The work that the product ``node`` does for its neighbours: the norm before it, and
        packing its result for the product after it."""
        if node.op != "linear":
            return None
        x, y = node.inputs[0], node.outputs[0]
        reader, is_packed = self.joined.readers.get(y), x in self.joined.readers
        if not (norm or reader or is_packed or y in self._chosen_from):
            return None
        return native.Joined(
            is_packed=is_packed,
            norm=None if norm is None else (
                self.weight(norm.weights["w"]) if "w" in norm.weights else 0,
                norm.float_attr("eps")),
            reader=None if reader is None else (
                self.segment.weights[reader.weights["w0"].name].quant, self.segment.stored[y]),
            is_chosen_from=y in self._chosen_from)


def _refused(error: ValueError, node: Node, device: str = "cpu") -> UnsupportedOp:
    """The error for a node that its kernel refuses."""
    return UnsupportedOp(str(error), node=node.name, device=device,
                         hint="add the device reference, which runs every op")


def _address(array: npt.NDArray[np.int32 | np.float32]) -> int:
    return int(array.ctypes.data)


def _value(value: Value, address: int) -> tuple[int, str, str, int]:
    """Address, type, the symbol that counts rows, and columns."""
    rows, n_cols = (*value.shape, 1)[:2]
    assert len(value.shape) <= 2 and isinstance(rows, str) and isinstance(n_cols, int), value
    return address, value.dtype, rows, n_cols


def _on_paper(node: Node, quants: Mapping[str, str | None]) -> native.Node:
    """``node`` described without addresses, to ask its kernel about it."""
    kv = None if node.state is None else native.KV(
        k=0, v=0, k_type="f32", v_type="f32", n_heads=node.state.n_kv_heads,
        k_dim=node.state.k_dim, v_dim=node.state.v_dim, block_tokens=1)
    n_state = get_op(node.op).state_size(node)
    return native.Node(op=node.op, name=node.name, inputs=[_value(v, 0) for v in node.inputs],
                       outputs=[_value(v, 0) for v in node.outputs],
                       weights={role: (0, str(quants[role]), w.shape)
                                for role, w in node.weights.items()},
                       attrs=node.attrs, slots=(0, n_state) if n_state else None, kv=kv)
