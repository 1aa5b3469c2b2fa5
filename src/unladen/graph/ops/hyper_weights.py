"""The weights by which residual streams are mixed before and after a part of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.activation import ACTIVATIONS, activation_error
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits


class Sizes(NamedTuple):
    """How the columns of x are divided for n streams.

    The first n columns weigh the streams that go into the part of a layer. With ``spreads``, the
    next n weigh its result for each stream. With ``mixes``, the last n * n mix the streams that go
    past the part.
    """

    n: int
    spreads: bool
    mixes: bool

    @classmethod
    def of(cls, node: Node) -> Sizes:
        """The sizes that attribute and input of ``node`` have."""
        n, n_cols = node.int_attr("n_streams"), node.inputs[0].shape[-1]
        assert n_cols in (n, 2 * n, (2 + n) * n), node
        return cls(n, n_cols != n, n_cols == (2 + n) * n and n != 0)


class HyperWeights(Op):
    """Hyper-connections (Zhu et al. 2024), constrained to a manifold (Xie et al. 2025).

    x f32 [T, m] for n = ``n_streams``; :class:`Sizes` says what its columns are. Weights: ``scale``
    [1, 2 or 3], a factor for each kind of columns, and ``base`` [m]. Let z = scale x + base.

    First output: ``sigmoid(z) + eps``, f32 [T, n]. Second output, if m > n: f32 [T, (n + 1) * n],
    weights of a ``hyper_mix`` of the n streams and the result of the part, to n streams. Its rows
    for the streams, [from, to], are the identity, or if m > 2 n made as follows (Sinkhorn and Knopp
    1967): a softmax over ``to``, plus eps; then divided by its sum over ``from``, plus eps; then
    ``n_rounds - 1`` times divided so over ``to`` and over ``from``. Its last row is
    ``magnitude * sigmoid(z) + out_eps``.
    """

    name = "hyper_weights"

    def infer(self, node: Node) -> Inferred:
        s, (x,) = Sizes.of(node), node.inputs
        assert node.weights["base"].shape == (x.shape[-1],)
        assert node.weights["scale"].shape == (1 + s.spreads + s.mixes,)
        outputs: list[tuple[tuple[int | str, ...], str]] = [((x.shape[0], s.n), "f32")]
        if s.spreads:
            outputs.append(((x.shape[0], (s.n + 1) * s.n), "f32"))
        return outputs  # type: ignore[return-value]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        s, eps, (z, _) = Sizes.of(node), node.float_attr("eps"), self._arguments(node, inputs, ctx)
        into = ACTIVATIONS["sigmoid"](z[:, :s.n]) + eps
        if not s.spreads:
            return [into]
        out = (node.float_attr("magnitude") * ACTIVATIONS["sigmoid"](z[:, s.n:2 * s.n])
               + node.float_attr("out_eps"))
        stays = np.tile(np.eye(s.n), (len(z), 1, 1))
        if s.mixes:
            stays = np.exp(z[:, 2 * s.n:].reshape(len(z), s.n, s.n))
            stays = stays / stays.sum(axis=2, keepdims=True) + eps
            for axis in (1, *(2, 1) * (node.int_attr("n_rounds") - 1)):
                stays = stays / (stays.sum(axis=axis, keepdims=True) + eps)
        return [into, np.concatenate([stays, out[:, None]], axis=1).reshape(len(z), -1)]

    def _arguments(self, node: Node, inputs: Sequence[Array], ctx: RefContext
                   ) -> tuple[Array, Array]:
        """z, and bounds of its errors, those of a product and a sum."""
        s, (x,) = Sizes.of(node), inputs
        scale = np.repeat(ctx.weights["scale"], [s.n, s.n, s.n * s.n][:1 + s.spreads + s.mixes])
        scaled, base = scale * x, ctx.weights["base"]
        return scaled + base, 2 * EPS32 * (np.abs(scaled) + np.abs(base))

    def flops(self, node: Node, limits: Limits) -> int:
        s, n_rows = Sizes.of(node), limits.count(node.inputs[0].shape[:1])
        return n_rows * (20 * s.n + s.mixes * 4 * s.n * s.n * node.int_attr("n_rounds"))

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        """A sigmoid's slope is at most 1/4. The relative error after a softmax is twice the
        arguments' worst error, plus an exp of 4 ulp and a sum of n. A division by the sum over a
        line subtracts a weighted mean from the logarithms' errors. So k divisions add at most k
        times the earlier error to each of the two vectors that scale the lines, and each division
        rounds a sum of n and a quotient."""
        s, (z, off) = Sizes.of(node), self._arguments(node, inputs, ctx)
        into, *more = self.reference(node, inputs, ctx)
        both = off[:, :2 * s.n] / 4 + activation_error("sigmoid", z[:, :2 * s.n])
        bounds = [both[:, :s.n] + EPS32 * into]
        if s.spreads:
            stays, out = more[0][:, :s.n * s.n], more[0][:, s.n * s.n:]
            magnitude, relative = abs(node.float_attr("magnitude")), np.zeros(1)
            if s.mixes:
                n_steps = 2 * node.int_attr("n_rounds") - 1
                first = 2 * off[:, 2 * s.n:].max(axis=1) + (s.n + 10) * EPS32 + EPS32 * (
                    np.ptp(z[:, 2 * s.n:], axis=1))
                relative = np.expm1((2 * n_steps + 1) * (first + n_steps * (s.n + 4) * EPS32))
            bounds.append(np.concatenate([
                stays * relative[:, None], magnitude * both[:, s.n:] + 2 * EPS32 * out], axis=1))
        return bounds
