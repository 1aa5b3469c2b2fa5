"""Dispatches of :class:`~unladen.graph.ops.pooled_attention.PooledAttention`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, numbers, row_bytes
from unladen.backends._gpu.memory import of_gpu
from unladen.backends._gpu.target import Range
from unladen.graph.graph import Node

THREADS = 128
"""Threads of a workgroup."""


class PooledAttention(OpLowering):
    """A workgroup for each head of each token."""

    op = "pooled_attention"
    kernels = frozenset({"pooled_attention"})

    def lower(self, low: Lowering, node: Node) -> None:
        (q,), (y,), n_heads = node.inputs, node.outputs, node.int_attr("n_heads")
        placed = low.cache(node)
        spec, layout = placed.spec, placed.layout
        ranges: dict[str, Range | bytes] = {
            "params": numbers(n_heads, layout.block_tokens, row_bytes(layout.k_type, spec.k_dim),
                              row_bytes(layout.v_type, spec.v_dim), node.int_attr("window"),
                              node.int_attr("ratio"), node.float_attr("scale")),
            "keys": of_gpu(placed.k).whole(), "values": of_gpu(placed.v).whole(),
            "q": low.value(q), "y": low.value(y),
            **{role: low.vector(node, role) for role in node.weights}}
        low.one_each("pooled_attention", y, n_heads, THREADS, ranges, {
            "KD": spec.k_dim, "FIRST_COLUMN": layout.first_column, "SINKS": "sinks" in node.weights,
            f"K_{layout.k_type}": True, f"V_{layout.v_type}": True})
