"""Groups of columns and their weights, for both kinds of norm."""

from __future__ import annotations

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import Array, RefContext


def group_of(node: Node) -> int:
    """How many columns are normalized together: attribute ``group``, else the size of ``w``, else
    the whole row."""
    n = node.inputs[0].shape[-1]
    assert isinstance(n, int), node.inputs
    weight = node.weights.get("w")
    group = node.attrs.get("group", n if weight is None else weight.n_elements)
    assert isinstance(group, int) and n % group == 0, (node.name, n, group)
    sizes = {w.n_elements for w in node.weights.values()}
    assert len(sizes) <= 1 and all(m % group == 0 == n % m for m in sizes), (node.name, n, sizes)
    return group


def grouped(node: Node, x: Array) -> Array:
    """x [T, n] as [T, n / group, group]."""
    group = group_of(node)
    return x.reshape(len(x), x.shape[-1] // group, group)


def columns_of(ctx: RefContext, role: str, n: int, default: float) -> Array:
    """A number for each of ``n`` columns: the weight in ``role``, repeated, or ``default`` where
    there is none."""
    weight = ctx.weights.get(role)
    return np.full(n, default) if weight is None else np.tile(weight.ravel(), n // weight.size)
