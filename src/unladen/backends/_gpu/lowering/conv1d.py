"""Dispatches of :class:`~unladen.graph.ops.conv1d.Conv1d`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, activation_flag, numbers
from unladen.graph.graph import Node


class Conv1d(OpLowering):
    """A thread for each channel of a sequence."""

    op = "conv1d"
    kernels = frozenset({"conv1d"})

    def lower(self, low: Lowering, node: Node) -> None:
        n_channels, n_taps = node.weights["w"].shape
        scan(low, node, n_channels, {
            "params": numbers(n_channels, n_taps), "x": low.value(node.inputs[0]),
            **{role: low.vector(node, role) for role in node.weights}},
            {"BIAS": "b" in node.weights, **activation_flag(node.attrs["act"])})
