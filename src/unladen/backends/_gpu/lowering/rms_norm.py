"""Dispatches of :class:`~unladen.graph.ops.rms_norm.RmsNorm`."""

from __future__ import annotations

from unladen.backends._gpu.lowering._norm import norm
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, threads_for
from unladen.graph.graph import Node
from unladen.graph.ops.norm_groups import group_of

MOST_KEPT = 8
"""The most items of a row that a thread keeps in registers instead of reading them again."""


class RmsNorm(OpLowering):
    """A workgroup for each group. A thread reads four columns at once where sizes allow it."""

    op = "rms_norm"
    kernels = frozenset({"rms_norm"})
    features = frozenset({"subgroups"})

    def lower(self, low: Lowering, node: Node) -> None:
        size = group_of(node)
        lengths = [size, *(w.n_elements for w in node.weights.values())]
        at_once = 4 if all(n % 4 == 0 for n in lengths) else 1
        kept = min(MOST_KEPT, -(-size // (at_once * threads_for(size))))
        norm(low, node, at_once, {"FOURS": at_once == 4, "KEPT": kept})
