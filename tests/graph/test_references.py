"""The references of the ops against plain statements of what they mean, number by number."""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cases
from cases.base import Case, Maker
from cases.running import on_paper
from unladen import quants
from unladen.graph.graph import Attr, KVSpec
from unladen.graph.ops import get_op, registry
from unladen.graph.ops.activation import ACTIVATIONS, activation_slope

Array = npt.NDArray[Any]
FEW = 200
"""Numbers of a result that are worth stating one by one."""


def values(case: Case, i: int) -> Array:
    return case.inputs[case.node.inputs[i]].astype(np.float64)


def weight(case: Case, role: str) -> Array:
    w = case.node.weights[role]
    return quants.dequantize(w.quant, case.weights[w.name], w.shape).astype(np.float64)


def assert_close(y: Array, expected: Array) -> None:
    np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-11)


# From tables: the normal distribution's Phi(1), e^-1, tanh.
KNOWN = {
    "silu": [(0.0, 0.0), (1.0, 0.7310585786300049), (-1.0, -0.2689414213699951),
             (-800.0, 0.0), (800.0, 800.0)],
    "gelu": [(0.0, 0.0), (1.0, 0.8411919906082768), (-1.0, -0.15880800939172324), (50.0, 50.0)],
    "gelu_erf": [(0.0, 0.0), (1.0, 0.8413447460685429), (-1.0, -0.15865525393145707)],
    "gelu_quick": [(0.0, 0.0), (1.0, 0.8457957659328212), (-1.0, -0.1542042340671788)],
    "relu": [(-2.0, 0.0), (3.5, 3.5)],
    "relu_squared": [(-2.0, 0.0), (3.5, 12.25)],
    "sigmoid": [(0.0, 0.5), (1.0, 0.7310585786300049), (-800.0, 0.0), (800.0, 1.0)],
    "tanh": [(0.0, 0.0), (1.0, 0.7615941559557649), (-800.0, -1.0)],
    "softplus": [(0.0, 0.6931471805599453), (1.0, 1.3132616875182228), (-800.0, 0.0),
                 (800.0, 800.0)],
    "exp": [(0.0, 1.0), (1.0, 2.718281828459045), (-800.0, 0.0)],
    "identity": [(-2.0, -2.0), (3.5, 3.5)],
}


def test_every_activation_has_known_values() -> None:
    assert set(KNOWN) == set(ACTIVATIONS)


@pytest.mark.parametrize("act", sorted(ACTIVATIONS))
def test_known_values(act: str) -> None:
    x, y = np.array(KNOWN[act]).T
    np.testing.assert_allclose(ACTIVATIONS[act](x), y, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("act", sorted(ACTIVATIONS))
def test_no_activation_is_steeper_than_its_bound(act: str, rng: np.random.Generator) -> None:
    x, off = np.sort(rng.uniform(-12, 12, 20_000)), 0.01
    rise = np.abs(ACTIVATIONS[act](x + off) - ACTIVATIONS[act](x)) / off
    assert np.all(rise <= activation_slope(act, x, np.full_like(x, off)) + 1e-9)


@pytest.mark.parametrize("spans", [False, True])
def test_attention_by_loops(rng: np.random.Generator, spans: bool) -> None:
    m = Maker(rng, 7, n_seqs=2, max_history=5)
    spec = KVSpec(0, 2, 3, 5)
    case = m.case("attention", m.input("T", 4 * 3), state=spec,
                  attrs={"n_heads": 4, "scale": 0.7, "spans": spans}, kv=m.cache(spec))
    (y,), _, (k_bytes, v_bytes) = on_paper(case)
    block = case.layout.block_tokens
    k = k_bytes.view(np.float32).reshape(-1, 2, block, 3)
    v = v_bytes.view(np.float32).reshape(-1, 2, block, 5).astype(np.float64)
    q, b = values(case, 0).reshape(7, 4, 3), case.batch
    expected = np.zeros((7, 4, 5))
    for t in range(7):
        table = b.block_table[b.seq_of[t], case.layout.first_column:]
        for h in range(4):
            total = 0.0
            last = b.sees_to[t] if spans else b.index[t]
            for p in range(last + 1):
                where = table[p // block], h // 2, p % block
                share = math.exp(0.7 * sum(float(a) * float(c) for a, c in zip(q[t, h], k[where],
                                                                              strict=True)))
                expected[t, h] += share * v[where]
                total += share
            expected[t, h] /= total
    assert_close(y, expected.reshape(7, 20))


def test_rope_by_complex_numbers(rng: np.random.Generator) -> None:
    for case in cases.registry()["rope"](rng):
        ys, _, _ = on_paper(case)
        head_dim, n_rot = case.node.int_attr("head_dim"), case.node.inputs[-1].shape[1]
        table = values(case, len(ys))
        assert isinstance(n_rot, int)
        for k in rng.integers(0, len(ys), FEW):
            x, y = values(case, k), ys[k]
            t, at = int(rng.integers(len(x))), int(rng.integers(x.shape[1]) // head_dim * head_dim)
            head, turned = x[t, at:at + head_dim], y[t, at:at + head_dim]
            i = int(rng.integers(n_rot // 2))
            a, b = (2 * i, 2 * i + 1) if case.node.attrs["style"] == "norm" else (i, i + n_rot // 2)
            z = complex(head[a], head[b]) * complex(table[t, 2 * i], table[t, 2 * i + 1])
            assert_close(turned[[a, b]], np.array([z.real, z.imag]))
            assert np.array_equal(turned[n_rot:], head[n_rot:])


def test_rope_table_by_complex_exponentials(rng: np.random.Generator) -> None:
    for case in cases.registry()["rope_table"](rng):
        (y,), _, _ = on_paper(case)
        freqs = case.node.attrs["freqs"]
        assert isinstance(freqs, tuple)
        for _ in range(FEW):
            t, i = int(rng.integers(len(y))), int(rng.integers(len(freqs)))
            position, back = case.batch.positions[t], case.node.attrs.get("back", 0)
            axes = case.node.attrs.get("axes")
            if axes is not None:
                assert isinstance(axes, tuple)
                position = position[int(axes[i])]
            z = cmath.rect(case.node.float_attr("magnitude"),
                           (int(position) - int(back)) * freqs[i])  # type: ignore[arg-type]
            assert_close(y[t, 2 * i:2 * i + 2], np.array([z.real, z.imag]))


@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_norms_by_definition(op: str, rng: np.random.Generator) -> None:
    for case in cases.registry()[op](rng):
        (y,), _, _ = on_paper(case)
        x, eps = values(case, 0), case.node.float_attr("eps")
        w = weight(case, "w").ravel() if "w" in case.node.weights else np.ones(x.shape[1])
        b = weight(case, "b") if "b" in case.node.weights else np.zeros(len(w))
        group = case.node.attrs.get("group", len(w))
        assert isinstance(group, int)
        for _ in range(5):
            row, first = int(rng.integers(len(x))), int(rng.integers(x.shape[1] // group)) * group
            part = list(x[row, first:first + group])
            mean = math.fsum(part) / group if op == "layer_norm" else 0.0
            std = math.sqrt(math.fsum((v - mean) ** 2 for v in part) / group + eps)
            expected = [(v - mean) / std * w[i % len(w)] + b[i % len(b)]
                        for i, v in enumerate(part, first)]
            assert_close(y[row, first:first + group], np.array(expected))


def test_moe_by_loops(rng: np.random.Generator) -> None:
    for case in cases.registry()["moe"](rng):
        (y,), _, _ = on_paper(case)
        t = int(rng.integers(len(y)))
        x, *seen = [values(case, i)[t] for i in range(len(case.node.inputs))]
        chosen = [int(e) for e in seen.pop()] if case.node.attrs.get("given") else None
        assert_close(y[t], one_token(case, x, seen[0] if seen else x, chosen))


def one_token(case: Case, x: Array, seen: Array, chosen: list[int] | None) -> Array:
    attrs, given = case.node.attrs, {role: weight(case, role) for role in case.node.weights}
    logits = [float(row @ seen) for row in given["router"]]
    logits = [v + float(b) for v, b in zip(logits, given.get("router_b", [0] * 99), strict=False)]
    p, best = chosen_of(logits, given.get("select_b", np.zeros(len(logits))), case)
    best = chosen or best
    if attrs["gating"] == "softmax_chosen":
        p = [math.exp(logits[e]) / math.fsum(math.exp(logits[b]) for b in best)
             for e in range(len(p))]
    whole = sum(p[e] for e in best) if attrs["normalize"] else 1.0
    total = np.zeros(len(x))
    first = case.node.int_attr("first_expert") if "first_expert" in attrs else 0
    slots = [int(slot) for slot in given.get("slot_of", np.arange(len(logits)) - first)]
    for e in best:
        if 0 <= slots[e] < len(given["down"]):
            share = p[e] / whole * case.node.float_attr("scale")
            outside, inside = (1, share) if attrs.get("weigh_input") else (share, 1)
            mine = {role: w[slots[e]] for role, w in given.items() if w.shape[0] != len(logits)
                    or role not in ("router", "router_b", "select_b", "slot_of")}
            down = mine["down"] @ hidden_of(mine, inside * x, attrs) * mine.get("down_scale", 1)
            total += outside * (down + mine.get("down_b", 0))
    return total


def chosen_of(logits: list[float], select_b: Array, case: Case) -> tuple[list[float], list[int]]:
    attrs = case.node.attrs
    match attrs["gating"]:
        case "softmax":
            p = [math.exp(v) / math.fsum(map(math.exp, logits)) for v in logits]
        case "sigmoid":
            p = [1 / (1 + math.exp(-v)) for v in logits]
        case "sqrt_softplus":
            p = [math.sqrt(math.log1p(math.exp(v))) for v in logits]
        case _:
            p = logits
    score = [v + float(b) for v, b in zip(p, select_b, strict=True)]
    allowed = set(range(len(p)))
    if "n_groups" in attrs:
        size = len(p) // case.node.int_attr("n_groups")
        groups = [range(i, i + size) for i in range(0, len(p), size)]
        groups.sort(key=lambda g: -sum(sorted(score[e] for e in g)[-2:]))
        allowed = {e for g in groups[:case.node.int_attr("n_groups_used")] for e in g}
    best = sorted(allowed, key=lambda e: (-score[e], e))
    return p, best[:case.node.int_attr("n_used")]


def hidden_of(mine: dict[str, Array], x: Array, attrs: Mapping[str, Attr]) -> Array:
    act = ACTIVATIONS[str(attrs["act"])]
    if "gate_up" in mine:
        half = len(mine["gate_up"]) // 2
        mine = {**mine, "gate": mine["gate_up"][:half], "up": mine["gate_up"][half:]}
    up = mine["up"] @ x + mine.get("up_b", 0)
    if "gate" not in mine:
        return act(up)
    gate = mine["gate"] @ x + mine.get("gate_b", 0)
    if "limit" in attrs:
        gate = np.minimum(gate, attrs.get("gate_limit", 0.7))
        up = np.clip(up, -0.7, 0.7) + 1
    return act(gate) * up


def test_linear_by_dot_products(rng: np.random.Generator) -> None:
    for case in cases.registry()["linear"](rng):
        outputs, _, _ = on_paper(case)
        x, attrs = values(case, 0), case.node.attrs
        for _ in range(5):
            t, n = int(rng.integers(len(x))), int(rng.integers(outputs[0].shape[1]))
            products = []
            for i in range(sum(role[0] == "w" for role in case.node.weights)):
                w = weight(case, f"w{i}")
                b = weight(case, f"b{i}") if f"b{i}" in case.node.weights else np.zeros(len(w))
                row = n % len(w)
                products.append((row, math.fsum(w[row] * x[t]) + float(b[row])))
            if "act" in attrs:
                gate, up = np.array([products[0][1]]), products[1][1]
                products = [(n, float(ACTIVATIONS[str(attrs["act"])](gate)[0]) * up)]
            if "residual" in attrs:
                products = [(n, products[0][1] + float(values(case, 1)[t, n]))]
            for (row, expected), y in zip(products, outputs, strict=True):
                assert_close(y[t, row], np.array(expected))


def test_the_rest_by_definition(rng: np.random.Generator) -> None:
    for case in cases.registry()["add"](rng):
        other = weight(case, "b") if case.node.weights else values(case, 1)
        assert_close(on_paper(case)[0][0], values(case, 0) + other)
    for case in cases.registry()["scale"](rng):
        expected = values(case, 0) * case.node.float_attr("s")
        if case.node.weights:
            w = weight(case, "w")
            for i in range(expected.shape[1]):
                factor = w[i // (expected.shape[1] // len(w))]
                expected[:, i] *= 1 / factor if case.node.attrs["divide"] else factor
        assert_close(on_paper(case)[0][0], expected)
    for case in cases.registry()["clamp"](rng):
        limit = case.node.float_attr("limit")
        expected = np.array([[min(max(v, -limit), limit) for v in row] for row in values(case, 0)])
        assert np.array_equal(on_paper(case)[0][0], expected.astype(np.float32))
    for case in cases.registry()["softcap"](rng):
        cap = case.node.float_attr("cap")
        assert_close(on_paper(case)[0][0], cap * (1 - 2 / (np.exp(2 / cap * values(case, 0)) + 1)))
    for case in cases.registry()["select_rows"](rng):
        rows = case.batch.out_rows[:case.batch.n_outputs]
        assert_close(on_paper(case)[0][0], np.array([values(case, 0)[r] for r in rows]))
    for case in cases.registry()["glu"](rng):
        attrs, gate, up = case.node.attrs, values(case, 0), values(case, 1)
        gate = np.concatenate([gate[:, [i * gate.shape[1] // up.shape[1]]]
                               for i in range(up.shape[1])], axis=1)
        if "limit" in attrs:
            gate = np.minimum(gate, attrs.get("gate_limit", 0.8))
            up = np.clip(up, -0.8, 0.8) + attrs.get("up_offset", 0)
        assert_close(on_paper(case)[0][0], ACTIVATIONS[str(attrs["act"])](gate) * up)


def test_columns_one_by_one(rng: np.random.Generator) -> None:
    for case in cases.registry()["columns"](rng):
        x, attrs = values(case, 0), case.node.attrs
        group = case.node.int_attr("group") if "group" in attrs else x.shape[1]
        first, count = case.node.int_attr("first"), case.node.int_attr("count")
        kept = [i for i in range(x.shape[1]) if first <= i % group < first + count]
        assert np.array_equal(on_paper(case)[0][0], x[:, kept])


@pytest.mark.parametrize("op", sorted(registry()))
def test_costs_and_bounds_have_the_right_size(op: str, rng: np.random.Generator) -> None:
    """Bounds are small beside the results (a long sum's worst case is a few percent); costs are no
    less than touching every number."""
    for case in cases.registry()[op](rng):
        outputs, bounds, _ = on_paper(case)
        assert len(outputs) == len(bounds) == len(case.node.outputs)
        for y, bound in zip(outputs, bounds, strict=True):
            assert np.all(bound >= 0) and np.all(np.isfinite(bound))
            if y.size > 100:  # the squares of a few numbers may all be small
                assert np.mean(bound ** 2) <= 0.05 ** 2 * np.mean(y ** 2)
        sizes = {w.name: w.nbytes_in(w.quant) for w in case.node.weights.values()}
        the_op, limits = get_op(op), case.limits
        written = sum(4 * limits.count(v.shape) for v in case.node.outputs)
        assert the_op.bytes_moved(case.node, limits, sizes.__getitem__) >= written
        assert the_op.flops(case.node, limits) >= written // 4


def test_rows_from_outside_one_by_one(rng: np.random.Generator) -> None:
    for case in cases.registry()["insert_rows"](rng):
        (y,), _, _ = on_paper(case)
        x, batch = values(case, 0), case.batch
        for t in range(batch.n_tokens):
            row = int(batch.row_of[t])
            assert np.array_equal(y[t], x[t] if row < 0 else batch.rows[row])


def test_strengths_of_adapters_column_by_column(rng: np.random.Generator) -> None:
    for case in cases.registry()["adapter_scale"](rng):
        (y,), _, _ = on_paper(case)
        x, batch = values(case, 0), case.batch
        ranks, scales = case.node.attrs["ranks"], case.node.attrs["scales"]
        assert isinstance(ranks, tuple) and isinstance(scales, tuple)
        owner = [i for i, rank in enumerate(ranks) for _ in range(int(rank))]
        for t in range(batch.n_tokens):
            chosen = int(batch.adapter_of[batch.seq_of[t]])
            for c in range(x.shape[1]):
                scale = 0.0 if chosen < 0 else scales[chosen * len(ranks) + owner[c]]
                assert y[t, c] == x[t, c] * scale
