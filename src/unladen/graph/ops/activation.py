"""Pointwise nonlinearities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from unladen.graph.graph import Node
from unladen.graph.ops.base import EPS32, Array, Inferred, Op, RefContext
from unladen.types import Limits

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    y: Array = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
    return y


def _gelu(x: Array) -> Array:
    """The tanh form of GELU (Hendrycks and Gimpel 2016)."""
    y: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return y


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = MappingProxyType({
    "silu": lambda x: x * _sigmoid(x),
    "gelu": _gelu,
    "gelu_erf": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_quick": lambda x: x * _sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "exp": np.exp,
    "identity": lambda x: x,
})
"""The functions by name, on float64."""

ACTIVATION_ULPS = 16
"""Bound of an implementation's error, in units of 2^-24 |x|. It allows for an exp or erf with 2 ulp
of error and for its rounded argument, which grows to about 10 before the result saturates."""


def activation_error(act: str, x: Array) -> Array:
    """A bound of an implementation's error: :data:`ACTIVATION_ULPS` times the largest possible
    result. That is x^2 for the squared ReLU, 1 for sigmoid and tanh, 1 + |x| for softplus, the
    result times its argument's error for exp, and |x| for all others."""
    size = np.abs(x)
    if act == "relu_squared":
        size = np.maximum(size, x * x)
    elif act in ("sigmoid", "tanh"):
        size = np.ones_like(x)
    elif act == "softplus":
        size = 1 + size
    elif act == "exp":
        size = np.exp(x) * (1 + size / ACTIVATION_ULPS)
    bound: Array = ACTIVATION_ULPS * EPS32 * size
    return bound


def activation_slope(act: str, x: Array, off: Array) -> Array:
    """A bound of |act'| within ``off`` of ``x``. All but the squared ReLU and exp have a largest
    slope; GELU's is the steepest, 1.129."""
    if act == "relu_squared":
        return 2 * (np.abs(x) + off)
    return np.exp(x + off) if act == "exp" else np.full_like(x, 1.13)


class ActivationOp(Op):
    """``y = act(x)``; attribute ``act`` names one of :data:`ACTIVATIONS`."""

    name = "activation"
    is_row_wise = True

    def infer(self, node: Node) -> Inferred:
        assert node.attrs["act"] in ACTIVATIONS
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [ACTIVATIONS[str(node.attrs["act"])](inputs[0])]

    def flops(self, node: Node, limits: Limits) -> int:
        return 16 * limits.count(node.inputs[0].shape)

    def error_bound(self, node: Node, inputs: Sequence[Array], ctx: RefContext) -> Sequence[Array]:
        return [activation_error(str(node.attrs["act"]), inputs[0])]
