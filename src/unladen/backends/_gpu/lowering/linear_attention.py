"""Dispatches of :class:`~unladen.graph.ops.linear_attention.LinearAttention`."""

from __future__ import annotations

import numpy as np

from unladen.backends._gpu.lowering._scan import scan
from unladen.backends._gpu.lowering.base import Lowering, OpLowering, n_cols, numbers
from unladen.graph.graph import Node
from unladen.graph.ops.linear_attention import Shapes


class LinearAttention(OpLowering):
    """A thread for each column of each head's values of a sequence."""

    op = "linear_attention"
    kernels = frozenset({"linear_attention"})

    def lower(self, low: Lowering, node: Node) -> None:
        s, fixed = Shapes.of(node), node.attrs.get("decay", ())
        assert isinstance(fixed, tuple)
        names = ["q", "k", "v"] + ["g"] * (not fixed) + ["beta"] * bool(node.attrs["delta"])
        values = dict(zip(names, map(low.value, node.inputs), strict=True))
        if fixed:
            values["decay"] = low.constant(np.exp(fixed))
        per_row = not fixed and n_cols(node.inputs[3]) > s.n_heads
        scan(low, node, s.n_heads * s.v_dim, {
            "params": numbers(s.n_heads, s.n_k_heads, s.k_dim, s.v_dim, int(bool(
                node.attrs["tiled"])), int(per_row), node.float_attr("scale")),
            **values, **{role: low.vector(node, role) for role in node.weights}},
            {"DELTA": "beta" in values, "FIRST": "first" in node.weights, "FIXED": bool(fixed)})
