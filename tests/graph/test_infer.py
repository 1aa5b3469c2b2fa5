"""Ops refuse inputs, weights and attributes that don't fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from unladen.graph.graph import KVSpec, Node, Value, Weight
from unladen.graph.ops import get_op
from unladen.types import Shape


def f32(*shape: int | str) -> Value:
    return Value("x", shape)  # type: ignore[arg-type]


def i32(symbol: str) -> Value:
    return Value("i", (symbol,), "i32")  # type: ignore[arg-type]


def infer(op: str, inputs: tuple[Value, ...], weights: Mapping[str, tuple[int, ...]] | None = None,
          attrs: Mapping[str, Any] | None = None, state: KVSpec | None = None) -> list[Shape]:
    made = {role: Weight(role, shape, "F32") for role, shape in (weights or {}).items()}
    node = Node("n", op, inputs, (), made, attrs or {}, state)
    return [shape for shape, dtype in get_op(op).infer(node) if dtype == "f32"]


X = f32("T", 8)
KV = KVSpec(0, 2, 4, 6)
MOE = {"router": (3, 8), "gate": (3, 5, 8), "up": (3, 5, 8), "down": (3, 8, 5)}
MOE_ATTRS = {"n_used": 2, "gating": "softmax", "normalize": True, "scale": 1.0, "act": "silu"}
TWO = {"w0": (5, 8), "w1": (5, 8)}

GOOD: list[tuple[Any, ...]] = [
    (("T", 8), "add", (X, X)),
    (("T", 8), "scale", (X,), {}, {"s": 2.0}),
    (("T", 8), "scale", (X,), {"w": (2,)}, {"s": 2.0}),
    (("T", 8), "add", (X,), {"b": (8,)}),
    (("T", 8), "clamp", (X,), {}, {"limit": 1.0}),
    (("T", 8), "softcap", (X,), {}, {"cap": 30.0}),
    (("T", 4), "columns", (X,), {}, {"first": 1, "count": 2, "group": 4}),
    (("T", 8), "rms_norm", (X,), {}, {"eps": 1e-5, "group": 2}),
    (("T", 8), "layer_norm", (X,), {"w": (4, 2)}, {"eps": 1e-5, "group": 2}),
    (("T", 8), "activation", (X,), {}, {"act": "relu"}),
    (("T", 8), "glu", (X, X), {}, {"act": "silu"}),
    (("T", 7), "embed", (i32("T"),), {"w": (9, 7)}),
    (("S", 8), "select_rows", (X, i32("S"))),
    (("T", 8), "rms_norm", (X,), {"w": (4,)}, {"eps": 1e-5}),
    (("S", 8), "layer_norm", (f32("S", 8),), {"w": (8,), "b": (8,)}, {"eps": 1e-5}),
    (("T", 6), "rope_table", (i32("T"),), {}, {"freqs": (1.0, 0.1, 0.01), "magnitude": 1.0}),
    (("T", 8), "rope", (X, f32("T", 2)), {}, {"head_dim": 4, "style": "norm"}),
    (("T", 24), "attention", (f32("T", 16),), {}, {"n_heads": 4, "scale": 1.0}, KV),
    (("T", 5), "linear", (X,), {"w0": (5, 8), "b0": (5,)}),
    (("T", 5), "linear", (X,), TWO, {"act": "silu"}),
    (("T", 5), "linear", (X, f32("T", 5)), {"w0": (5, 8)}, {"residual": True}),
    (("T", 8), "moe", (X,), MOE, MOE_ATTRS),
    (("T", 8), "moe", (X,), {**MOE, "router": (7, 8)}, {**MOE_ATTRS, "first_expert": 4}),
]

BAD: list[tuple[Any, ...]] = [
    ("add", (X, f32("S", 8))),
    ("activation", (X,), {}, {"act": "swish"}),
    ("glu", (X, f32("T", 9)), {}, {"act": "silu"}),
    ("embed", (X,), {"w": (9, 7)}),
    ("select_rows", (X, X)),
    ("rms_norm", (X,), {"w": (3,)}, {"eps": 1e-5}),
    ("rms_norm", (X,), {}, {"eps": 1e-5, "group": 3}),
    ("rms_norm", (X,), {"w": (4,)}, {"eps": 1e-5, "group": 8}),
    ("layer_norm", (X,), {"w": (3,)}, {"eps": 1e-5}),
    ("layer_norm", (X,), {"w": (8,), "b": (4,)}, {"eps": 1e-5}),
    ("add", (X,), {"b": (4,)}),
    ("scale", (X,), {"w": (3,)}, {"s": 1.0}),
    ("softcap", (X,), {}, {"cap": 0.0}),
    ("clamp", (X,), {}, {"limit": -1.0}),
    ("columns", (X,), {}, {"first": 4, "count": 5}),
    ("columns", (X,), {}, {"first": 0, "count": 1, "group": 3}),
    ("rope", (X, f32("T", 2)), {}, {"head_dim": 3, "style": "norm"}),
    ("rope", (X, f32("T", 6)), {}, {"head_dim": 4, "style": "norm"}),
    ("rope", (X, f32("T", 3)), {}, {"head_dim": 4, "style": "norm"}),
    ("rope", (X, f32("T", 2)), {}, {"head_dim": 4, "style": "spiral"}),
    ("kv_write", (f32("T", 9), f32("T", 12)), {}, {}, KV),
    ("kv_write", (f32("T", 8), f32("T", 8)), {}, {}, KV),
    ("kv_write", (f32("T", 8), f32("T", 12))),
    ("attention", (f32("T", 16),), {}, {"n_heads": 3, "scale": 1.0}, KV),
    ("attention", (f32("T", 12),), {}, {"n_heads": 3, "scale": 1.0}, KV),
    ("linear", (X,), {"w0": (5, 9)}),
    ("linear", (X,), {"w0": (5, 8), "b0": (8,)}),
    ("linear", (X,), {"w0": (5, 8), "w1": (4, 8)}, {"act": "silu"}),
    ("linear", (X,), {"w0": (5, 8)}, {"act": "silu"}),
    ("linear", (X, X), {"w0": (5, 8)}, {"residual": True}),
    ("linear", (X, f32("T", 5)), TWO, {"residual": True}),
    ("moe", (X,), {**MOE, "router": (4, 8)}, MOE_ATTRS),
    ("moe", (X,), {**MOE, "router_b": (4,)}, MOE_ATTRS),
    ("moe", (X,), {**MOE, "up": (3, 8, 5)}, MOE_ATTRS),
    ("moe", (X,), {**MOE, "down": (3, 5, 8)}, MOE_ATTRS),
    ("moe", (X,), MOE, {**MOE_ATTRS, "n_used": 4}),
    ("moe", (X,), MOE, {**MOE_ATTRS, "first_expert": 1}),
    ("moe", (X,), {**MOE, "router": (7, 8)}, {**MOE_ATTRS, "first_expert": 5}),
    ("moe", (X,), {**MOE, "router": (7, 8)}, {**MOE_ATTRS, "first_expert": -1}),
    ("moe", (X,), MOE, {**MOE_ATTRS, "n_used": 0}),
    ("moe", (X,), MOE, {**MOE_ATTRS, "gating": "dice"}),
]


@pytest.mark.parametrize("good", GOOD, ids=lambda case: case[1])
def test_shapes(good: tuple[Any, ...]) -> None:
    shape, *arguments = good
    assert infer(*arguments) == [shape]


@pytest.mark.parametrize("bad", BAD, ids=lambda case: case[0])
def test_what_does_not_fit(bad: tuple[Any, ...]) -> None:
    with pytest.raises(AssertionError):
        infer(*bad)


def test_kv_write_gives_nothing() -> None:
    assert infer("kv_write", (f32("T", 8), f32("T", 12)), {}, {}, KV) == []
