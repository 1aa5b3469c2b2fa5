"""Dispatches of :class:`~unladen.graph.ops.ssm_scan.SsmScan`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.ssm_scan import sizes


class SsmScan(OpLowering):
    """A thread for each channel of each head of a sequence."""

    op = "ssm_scan"
    kernels = frozenset({"ssm_scan"})

    def n_bindings(self, node: Node) -> int:
        """Inputs, weights, slots, outputs, and the step's words."""
        return 9

    def lower(self, low: Lowering, node: Node) -> None:
        n_heads, n_channels, n_state = sizes(node)
        values = dict(zip(("x", "dt", "b", "c"), map(low.value, node.inputs), strict=True))
        scan(low, node, n_heads * n_channels, {
            "params": numbers(n_heads, n_channels, n_state, node.int_attr("n_groups"),
                              node.weights["a"].shape[1]),
            **values, "a": low.vector(node, "a"), "d": low.vector(node, "d")})
