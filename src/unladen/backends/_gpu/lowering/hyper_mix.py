"""Dispatches of :class:`~unladen.graph.ops.hyper_mix.HyperMix`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.hyper_mix import stream_counts


class HyperMix(OpLowering):
    """One dispatch for each input, with a thread for each element of the output. The first dispatch
    writes the output; the others add to it."""

    op = "hyper_mix"
    kernels = frozenset({"hyper_mix"})

    def lower(self, low: Lowering, node: Node) -> None:
        *xs, w = node.inputs
        (y,), width, first = node.outputs, node.int_attr("width"), 0
        for x in xs:
            count = n_cols(x) // width
            low.elements("hyper_mix", y, {
                "params": numbers(width, *stream_counts(node), first, count), "x": low.value(x),
                "w": low.value(w), "y": low.value(y)}, {"FURTHER": first > 0})
            first += count
