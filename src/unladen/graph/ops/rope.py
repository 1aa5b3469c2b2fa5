"""RoPE, rotary position embedding (Su et al. 2021): a table of angles once a step, then rotations.

Every published way of extending the context (linear, NTK, YaRN, llama 3, longrope) is a choice of
frequencies and a magnitude. The architecture makes this choice, and a node only holds the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class RopeTable(Op):
    """``y[t] = (cos, sin)((positions[t] - back) * freqs[i]) * magnitude``: i32 [T] -> f32
    [T, 2 * n_freqs]. With positions i32 [T, n_axes] frequency i uses the coordinate ``axes[i]``.

    Attributes ``freqs`` (radians per position), ``magnitude``, ``back`` (0 by default), and
    ``axes`` where positions have several.
    """

    name = "rope_table"

    def infer(self, node: Node) -> Inferred:
        (positions,) = node.inputs
        freqs = node.attrs["freqs"]
        assert isinstance(freqs, tuple)
        axes = axes_of(node)
        if len(positions.shape) == 1:
            assert not axes, f"{node.name}: its positions have one axis"
        else:
            n_axes = positions.shape[1]
            assert isinstance(n_axes, int) and len(axes) == len(freqs)
            assert all(0 <= axis < n_axes for axis in axes), axes
        return [((positions.shape[0], 2 * len(freqs)), "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        freqs = np.asarray(node.attrs["freqs"], np.float64)
        positions = inputs[0][:, axes_of(node)] if inputs[0].ndim > 1 else inputs[0][:, None]
        angle = (positions - positions_back(node)) * freqs
        table = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        return [table.reshape(len(angle), -1) * node.float_attr("magnitude")]

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        # Every backend computes angles in float64, rounds cos and sin to float32 and scales them.
        return [3 * EPS32 * np.abs(self.reference(node, inputs, ctx)[0]) + 2.0 ** -40]


class Rope(Op):
    """Rotates pairs of every head: x f32 [T, n_heads * head_dim], table f32 [T, n_rot] -> f32 as x.
    A fused node has several x before one table, and as many outputs.

    Attributes ``head_dim`` and ``style``: ``"norm"`` pairs (2i, 2i+1), ``"neox"`` pairs
    (i, i + n_rot/2), counted from dimension ``first`` of a head (0 by default). Dimensions outside
    ``first .. first + n_rot`` are copied.
    """

    name = "rope"

    def infer(self, node: Node) -> Inferred:
        *xs, table = node.inputs
        head_dim = node.int_attr("head_dim")
        assert xs and all(isinstance(n, int) and n % head_dim == 0 for n in
                          (x.shape[-1] for x in xs))
        n_rot = table.shape[-1]
        assert isinstance(n_rot, int) and n_rot % 2 == 0 and first_rotated(node) + n_rot <= head_dim
        assert node.attrs["style"] in ("norm", "neox")
        return [(x.shape, "f32") for x in xs]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        *xs, table = inputs
        return [self._rotated(node, x, table) for x in xs]

    def _rotated(self, node: Node, x: Array, table: Array) -> Array:
        a, b, first, second = self._pairs(node, x, table)
        cos, sin = table[:, None, 0::2], table[:, None, 1::2]
        y = x.reshape(len(x), -1, node.int_attr("head_dim")).copy()
        y[..., first], y[..., second] = a * cos - b * sin, a * sin + b * cos
        return y.reshape(x.shape)

    def _pairs(self, node: Node, x: Array, table: Array
               ) -> tuple[Array, Array, slice, slice]:
        n_rot = table.shape[1]
        heads = x.reshape(len(x), -1, node.int_attr("head_dim"))
        at = first_rotated(node)
        if node.attrs["style"] == "norm":
            first, second = slice(at, at + n_rot, 2), slice(at + 1, at + n_rot, 2)
        else:
            first, second = slice(at, at + n_rot // 2), slice(at + n_rot // 2, at + n_rot)
        return heads[..., first], heads[..., second], first, second

    def flops(self, node: Node, limits: Limits) -> int:
        return 3 * sum(limits.count(x.shape) for x in node.inputs[:-1])

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        *xs, table = inputs
        return [self._bound(node, x, table) for x in xs]

    def _bound(self, node: Node, x: Array, table: Array) -> Array:
        a, b, first, second = self._pairs(node, x, table)
        cos, sin = np.abs(table[:, None, 0::2]), np.abs(table[:, None, 1::2])
        bound = np.zeros(x.shape).reshape(len(x), -1, node.int_attr("head_dim"))
        bound[..., first] = 3 * EPS32 * (np.abs(a) * cos + np.abs(b) * sin)
        bound[..., second] = 3 * EPS32 * (np.abs(a) * sin + np.abs(b) * cos)
        return bound.reshape(x.shape)


def first_rotated(node: Node) -> int:
    """The first dimension of a head that a ``rope`` node rotates."""
    return node.int_attr("first") if "first" in node.attrs else 0


def positions_back(node: Node) -> int:
    """The number that a ``rope_table`` node subtracts from positions, 0 by default."""
    return node.int_attr("back") if "back" in node.attrs else 0


def axes_of(node: Node) -> list[int]:
    """For each frequency of a ``rope_table`` node the axis of the positions that it uses; empty
    where positions have one axis."""
    axes = node.attrs.get("axes", ())
    assert isinstance(axes, tuple), node
    return [int(axis) for axis in axes]
