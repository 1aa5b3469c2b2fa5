"""Dispatches of :class:`~unladen.graph.ops.hyper_weights.HyperWeights`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.backends._gpu.target import Range
from unladen.graph.graph import Node
from unladen.graph.ops.hyper_weights import Sizes


class HyperWeights(OpLowering):
    """A thread for each token."""

    op = "hyper_weights"
    kernels = frozenset({"hyper_weights"})

    def lower(self, low: Lowering, node: Node) -> None:
        (x,), (y, *spread), sizes = node.inputs, node.outputs, Sizes.of(node)
        ranges: dict[str, Range | bytes] = {
            "params": numbers(node.int_attr("n_rounds"), node.float_attr("eps"),
                              node.float_attr("magnitude"), node.float_attr("out_eps")),
            "x": low.value(x), "y": low.value(y),
            **{role: low.vector(node, role) for role in node.weights}}
        if spread:
            ranges["spread"] = low.value(spread[0])
        low.elements("hyper_weights", y, ranges, {
            "N": sizes.n, "M": n_cols(x), "SPREADS": sizes.spreads, "MIXES": sizes.mixes}, cols=1)
