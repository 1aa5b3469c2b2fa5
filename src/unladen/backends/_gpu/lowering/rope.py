"""Dispatches of :class:`~unladen.graph.ops.rope.Rope`."""

from __future__ import annotations

from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.backends._gpu.target import Range
from unladen.graph.graph import Node
from unladen.graph.ops.rope import first_rotated


class Rope(OpLowering):
    """A thread for each element. One dispatch rotates up to two inputs."""

    op = "rope"
    kernels = frozenset({"rope"})

    def lower(self, low: Lowering, node: Node) -> None:
        *xs, table = node.inputs
        for at in range(0, len(xs), 2):
            one, *other = zip(xs[at:at + 2], node.outputs[at:at + 2], strict=True)
            cols = [n_cols(y) for _, y in (one, *other)]
            ranges: dict[str, Range | bytes] = {
                "params": numbers(sum(cols), cols[0], node.int_attr("head_dim"), n_cols(table),
                                  int(node.attrs["style"] == "neox"), first_rotated(node)),
                "table": low.value(table), "x": low.value(one[0]), "y": low.value(one[1])}
            for x, y in other:
                ranges |= {"x1": low.value(x), "y1": low.value(y)}
            low.elements("rope", one[1], ranges, {"TWO": bool(other)}, cols=sum(cols))
