"""Ops in terms of ggml's functions: a function for each op that this backend runs.

ggml counts dimensions from the fastest: a value [T, n] is a tensor [n, T]. Activations that ggml's
CPU code looks up in tables of float16 (GELU) are put together from exact ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from unladen.backends.ggml.attending import attention, kv_write
from unladen.backends.ggml.building import F32, Builder
from unladen.graph.batch import Batch
from unladen.graph.graph import Node
from unladen.graph.ops.base import Array
from unladen.graph.ops.columns import column_attrs
from unladen.graph.ops.gated import GatedUnit
from unladen.graph.ops.linear import n_weights
from unladen.graph.ops.norm_groups import group_of
from unladen.graph.ops.rope import axes_of, first_rotated, positions_back

FLOAT: Final = 4
"""Bytes of a float32."""


def _width(node: Node, i: int = 0) -> int:
    n = node.inputs[i].shape[-1]
    assert isinstance(n, int)
    return n


def _rows(b: Builder, node: Node, i: int = 0) -> int:
    return b.sizes.of_symbol(node.inputs[i].shape[0])


def _embed(b: Builder, node: Node) -> None:
    weight = node.weights["w"]
    b.result(node.outputs[0], b.op("get_rows", b.weight(weight),
                                   b.row_numbers(node.inputs[0], weight.shape[0])))


def _select_rows(b: Builder, node: Node) -> None:
    x, rows = node.inputs
    b.result(node.outputs[0], b.op("get_rows", b.value(x), b.value(rows)))


def _linear(b: Builder, node: Node) -> None:
    x = b.value(node.inputs[0])
    for i in range(n_weights(node)):
        weight = b.weight(node.weights[f"w{i}"])
        if b.precise:  # ggml rounds activations to the precision of the weights
            weight = b.op("cast", weight, F32)
        y = b.op("mul_mat", weight, x)
        if f"b{i}" in node.weights:
            y = b.op("add", y, _flat(b, node, f"b{i}"))
        b.result(node.outputs[i], y)


def _flat(b: Builder, node: Node, role: str) -> int:
    """A weight as a vector."""
    weight = node.weights[role]
    return b.view("reshape_1d", b.weight(weight), weight.n_elements)


def _rms_norm(b: Builder, node: Node) -> None:
    _norm(b, node, "rms_norm")


def _layer_norm(b: Builder, node: Node) -> None:
    _norm(b, node, "norm")


def _norm(b: Builder, node: Node, name: str) -> None:
    n, group, n_rows = _width(node), group_of(node), _rows(b, node)
    x = b.value(node.inputs[0])
    if group < n:
        x = b.view("reshape_2d", x, group, n // group * n_rows)
    y = b.op(name, x, node.float_attr("eps"))
    for role, function in (("w", "mul"), ("b", "add")):
        if role in node.weights:
            m = node.weights[role].n_elements
            y = b.view("reshape_2d", y, m, n // m * n_rows)
            y = b.op(function, y, _flat(b, node, role))
    b.result(node.outputs[0], y)


def _add(b: Builder, node: Node) -> None:
    other = _flat(b, node, "b") if node.weights else b.value(node.inputs[1])
    b.result(node.outputs[0], b.op("add", b.value(node.inputs[0]), other))


def _scale(b: Builder, node: Node) -> None:
    y = b.op("scale_bias", b.value(node.inputs[0]), node.float_attr("s"), 0.0)
    if "w" in node.weights:
        m, n = node.weights["w"].n_elements, _width(node)
        y = b.view("reshape_3d", y, n // m, m, _rows(b, node))
        w = b.view("reshape_2d", b.weight(node.weights["w"]), 1, m)
        y = b.op("div" if node.attrs.get("divide") else "mul", y, w)
    b.result(node.outputs[0], y)


def _softcap(b: Builder, node: Node) -> None:
    cap = node.float_attr("cap")
    y = b.op("tanh", b.op("scale_bias", b.value(node.inputs[0]), 1 / cap, 0.0))
    b.result(node.outputs[0], b.op("scale_bias", y, cap, 0.0))


def _clamp(b: Builder, node: Node) -> None:
    limit = node.float_attr("limit")
    copy = b.op("cont", b.value(node.inputs[0]))
    b.result(node.outputs[0], b.op("cont", b.op("clamp_inplace", copy, -limit, limit)))


def _gelu(b: Builder, x: int) -> int:
    inner = b.op("scale_bias", b.op("sqr", x), 0.044715, 1.0)
    inner = b.op("scale_bias", b.op("mul", inner, x), math.sqrt(2 / math.pi), 0.0)
    half = b.op("scale_bias", b.op("tanh", inner), 0.5, 0.5)
    return b.op("mul", half, x)


def _gelu_quick(b: Builder, x: int) -> int:
    return b.op("mul", b.op("sigmoid", b.op("scale_bias", x, 1.702, 0.0)), x)


def _plain(name: str) -> Callable[[Builder, int], int]:
    return lambda b, x: b.op(name, x)


ACTIVATIONS: Mapping[str, Callable[[Builder, int], int]] = MappingProxyType({
    **{name: _plain(name) for name in ("silu", "relu", "sigmoid", "tanh", "exp")},
    "identity": _plain("cont"),
    "gelu": _gelu,
    "gelu_quick": _gelu_quick,
    "gelu_erf": _plain("gelu_erf"),
    "relu_squared": lambda b, x: b.op("sqr", b.op("relu", x))})
"""The activations that ggml computes as exactly as float32 allows."""


def _activation(b: Builder, node: Node) -> None:
    b.result(node.outputs[0], ACTIVATIONS[str(node.attrs["act"])](b, b.value(node.inputs[0])))


def _glu(b: Builder, node: Node) -> None:
    unit = GatedUnit.of(node)
    gate, up = map(b.value, node.inputs)
    if unit.limit:
        gate = b.op("clamp_inplace", b.op("cont", gate), -math.inf, unit.gate_cut)
        up = b.op("clamp_inplace", b.op("cont", up), -unit.limit, unit.limit)
    if unit.up_offset:
        up = b.op("scale_bias", up, 1.0, unit.up_offset)
    gate = ACTIVATIONS[unit.act](b, gate)
    n_gates, n, n_rows = _width(node), _width(node, 1), _rows(b, node)
    if n_gates < n:
        up = b.view("reshape_3d", up, n // n_gates, n_gates, n_rows)
        gate = b.view("reshape_3d", gate, 1, n_gates, n_rows)
    b.result(node.outputs[0], b.op("mul", up, gate))


def _columns(b: Builder, node: Node) -> None:
    group, first, count = column_attrs(node)
    n, n_rows = _width(node), _rows(b, node)
    x = b.view("view_2d", b.value(node.inputs[0]), count, n // group * n_rows, group * FLOAT,
               first * FLOAT)
    b.result(node.outputs[0], b.op("cont", x))


def _concat(b: Builder, node: Node) -> None:
    first, *rest = map(b.value, node.inputs)
    y = b.op("cont", first) if not rest else first
    for x in rest:
        y = b.op("concat", y, x, 0)
    b.result(node.outputs[0], y)


def _rope_table(b: Builder, node: Node) -> None:
    """Angles are computed by the host, in float64 as every backend does."""
    freqs = np.asarray(node.attrs["freqs"], np.float64)
    axes, back, magnitude = axes_of(node), positions_back(node), node.float_attr("magnitude")

    def fill(batch: Batch) -> Array:
        positions = batch.positions[:batch.n_tokens]
        taken = positions[:, axes] if positions.ndim > 1 else positions[:, None]
        angle = (taken - back) * freqs
        table = np.stack([np.cos(angle), np.sin(angle)], axis=-1).astype(np.float32)
        return table.reshape(len(angle), -1) * np.float32(magnitude)
    table = b.input(("table", node.name), F32, (2 * len(freqs), b.sizes.n_tokens), fill)
    b.result(node.outputs[0], b.op("cont", table))


def _rope(b: Builder, node: Node) -> None:
    *xs, table = node.inputs
    n_rot = table.shape[-1]
    assert isinstance(n_rot, int)
    half, n_rows = n_rot // 2, b.sizes.n_tokens
    is_norm = node.attrs["style"] == "norm"
    shape = (1, half) if is_norm else (half, 1)
    cos, sin = (b.view("reshape_4d", b.op("cont", b.view(
        "view_2d", b.value(table), 1, half * n_rows, 2 * FLOAT, i * FLOAT)), *shape, 1, n_rows)
        for i in (0, 1))
    for x, y in zip(xs, node.outputs, strict=True):
        n = x.shape[-1]
        assert isinstance(n, int)
        n_heads = n // node.int_attr("head_dim")
        b.result(y, _rotated(b, node, b.value(x), n_heads, (cos, sin), n_rot))


def _rotated(b: Builder, node: Node, x: int, n_heads: int, table: tuple[int, int], n_rot: int
             ) -> int:
    """x [n, T] with pairs of every head rotated, as [head_dim, n_heads, T]."""
    head, at, half = node.int_attr("head_dim"), first_rotated(node), n_rot // 2
    n_rows = b.sizes.n_tokens
    is_norm = node.attrs["style"] == "norm"
    cos, sin = table

    def part(first: int) -> int:
        """One of each pair: [1, half, n_heads, T] or [half, 1, n_heads, T]."""
        n0, n1 = (1, half) if is_norm else (half, 1)
        step = 2 if is_norm else half
        return b.op("cont", b.view(
            "view_4d", x, n0, n1, n_heads, n_rows, step * FLOAT, head * FLOAT,
            head * n_heads * FLOAT, (at + first) * FLOAT))
    a, c = part(0), part(1 if is_norm else half)
    turned = (b.op("sub", b.op("mul", a, cos), b.op("mul", c, sin)),
              b.op("add", b.op("mul", a, sin), b.op("mul", c, cos)))
    y = b.op("concat", *turned, 0 if is_norm else 1)
    y = b.view("reshape_3d", y, n_rot, n_heads, n_rows)
    whole = b.view("reshape_3d", x, head, n_heads, n_rows)
    for first, count, is_before in ((0, at, True), (at + n_rot, head - at - n_rot, False)):
        if count:
            rest = b.op("cont", b.view("view_3d", whole, count, n_heads, n_rows, head * FLOAT,
                                       head * n_heads * FLOAT, first * FLOAT))
            y = b.op("concat", rest, y, 0) if is_before else b.op("concat", y, rest, 0)
    return y if at or head > n_rot else b.op("cont", y)


Lowering = Callable[[Builder, Node], None]
LOWERINGS: Mapping[str, Lowering] = MappingProxyType({
    "attention": attention, "kv_write": kv_write,
    **{f.__name__[1:]: f for f in (
        _activation, _add, _clamp, _columns, _concat, _embed, _glu, _layer_norm, _linear, _rms_norm,
        _rope, _rope_table, _scale, _select_rows, _softcap)}})
"""The ops that this backend runs, by name."""


def can_lower(node: Node) -> bool:
    """Whether there is a lowering for the node and its attributes."""
    if node.op not in LOWERINGS:
        return False
    if node.op in ("glu", "activation"):
        return node.attrs["act"] in ACTIVATIONS
    if node.op == "linear":
        return not {"act", "residual"} & node.attrs.keys()
    if node.op == "concat":
        return not {"n_heads", "n_shared"} & node.attrs.keys()
    return True
