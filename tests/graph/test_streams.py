"""References of residual streams and of rows for groups of tokens, against plain statements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import cases
from cases import Case
from cases.running import on_paper
from unladen import quants
from unladen.graph.ops import get_op
from unladen.graph.ops.base import Recurrent
from unladen.graph.ops.hyper_weights import Sizes

Array = npt.NDArray[Any]


def values(case: Case, i: int) -> Array:
    return case.inputs[case.node.inputs[i]].astype(np.float64)


def weight(case: Case, role: str) -> Array:
    w = case.node.weights[role]
    return quants.dequantize(w.quant, case.weights[w.name], w.shape).astype(np.float64)


def assert_close(y: Array, expected: Array) -> None:
    np.testing.assert_allclose(y, expected, rtol=1e-11, atol=1e-11)


def test_streams_mixed_one_by_one(rng: np.random.Generator) -> None:
    for case in cases.registry()["hyper_mix"](rng):
        width, ((y,), _, _) = case.node.int_attr("width"), on_paper(case)
        *xs, w = [values(case, i) for i in range(len(case.node.inputs))]
        t = int(rng.integers(len(y)))
        streams = [x[t, i:i + width] for x in xs for i in range(0, x.shape[1], width)]
        n_out = w.shape[1] // len(streams)
        expected = [sum(w[t, s * n_out + d] * stream for s, stream in enumerate(streams))
                    for d in range(n_out)]
        assert_close(y[t], np.concatenate(expected))


def test_stream_weights_by_definition(rng: np.random.Generator) -> None:
    for case in cases.registry()["hyper_weights"](rng):
        x, scale, base, attrs = (values(case, 0), weight(case, "scale"), weight(case, "base"),
                                 case.node.attrs)
        (into, *spread), _, _ = on_paper(case)
        s, t = Sizes.of(case.node), int(rng.integers(len(x)))

        def sigmoid(kind: int, i: int, row: Array = x[t], scale: Array = scale,
                    base: Array = base, n: int = s.n) -> float:
            return 1 / (1 + math.exp(-(scale[kind] * row[kind * n + i] + base[kind * n + i])))

        assert_close(into[t], np.array([sigmoid(0, i) for i in range(s.n)]) + attrs["eps"])
        if not spread:
            continue
        stays, out = np.split(spread[0][t], [s.n * s.n])
        assert_close(out, attrs["out_eps"] + case.node.float_attr("magnitude")
                     * np.array([sigmoid(1, i) for i in range(s.n)]))
        stays = stays.reshape(s.n, s.n)
        if not s.mixes:
            assert np.array_equal(stays, np.eye(s.n))
            continue
        z = (scale[2] * x[t, 2 * s.n:] + base[2 * s.n:]).reshape(s.n, s.n)
        expected = np.array([[math.exp(v) / math.fsum(map(math.exp, row)) for v in row]
                             for row in z]) + attrs["eps"]
        for i in range(2 * case.node.int_attr("n_rounds") - 1):
            lines = expected.T if i % 2 == 0 else expected
            scaled = np.array([[v / (math.fsum(line) + attrs["eps"]) for v in line]
                               for line in lines])
            expected = scaled.T if i % 2 == 0 else scaled
        assert_close(stays, expected)


def test_groups_of_tokens_however_a_sequence_is_cut(rng: np.random.Generator) -> None:
    for case in cases.registry()["pool_tokens"](rng):
        op, node, place = get_op(case.node.op), case.node, weight(case, "place")
        assert isinstance(op, Recurrent)
        ratio, n_groups, n = node.int_attr("ratio"), node.int_attr("n_groups"), 300
        x, scores = rng.standard_normal((2, n, place.shape[1]))
        width, state = place.shape[1] // n_groups, np.zeros(op.state_size(node))
        ys, at = [], 0
        while at < n:
            end = min(n, at + int(rng.integers(1, 40)))
            found, state = op.scan(node, [x[at:end], scores[at:end], np.arange(at, end)],
                                   {"place": place}, state)
            ys.append(found[0])
            at = end
        y = np.concatenate(ys)
        for end in range(ratio - 1, n, ratio):
            own, before = range(end - ratio + 1, end + 1), range(end - 2 * ratio + 1,
                                                                 end - ratio + 1)
            tokens = [(t, n_groups - 1) for t in own]
            if n_groups == 2 and end >= ratio:
                tokens += [(t, 0) for t in before]
            c = int(rng.integers(width))
            weights = [math.exp(scores[t, g * width + c] + place[t % ratio, g * width + c])
                       for t, g in tokens]
            total = math.fsum(w * x[t, g * width + c]
                              for w, (t, g) in zip(weights, tokens, strict=True))
            assert_close(y[end, c], np.array(total / math.fsum(weights)))
        assert not np.delete(y, np.s_[ratio - 1::ratio], axis=0).any()


def test_attention_to_groups_by_loops(rng: np.random.Generator) -> None:
    for case in cases.registry()["pooled_attention"](rng):
        (y,), _, _ = on_paper(case)
        spec, node, batch = case.node.state, case.node, case.batch
        assert spec is not None and case.kv is not None
        t = int(rng.integers(len(y)))
        table = batch.block_table[batch.seq_of[t], case.layout.first_column:]
        position = int(batch.positions[t])
        head = int(rng.integers(node.int_attr("n_heads")))
        q = values(case, 0)[t, head * spec.k_dim:][:spec.k_dim]
        layout = case.layout
        planes = [quants.dequantize(kind, raw, (layout.n_blocks, layout.block_tokens, dim))
                  for kind, raw, dim in ((layout.k_type, case.kv[0], spec.k_dim),
                                         (layout.v_type, case.kv[1], spec.v_dim))]
        seen = [(0, p) for p in range(position + 1) if p > position - node.int_attr("window")]
        seen += [(1, p) for p in range(position + 1) if (p + 1) % node.int_attr("ratio") == 0]
        rows = [planes[kind][table[p // layout.block_tokens], p % layout.block_tokens][
            :spec.k_dim].astype(np.float64) for kind, p in seen]
        weights = [math.exp(node.float_attr("scale") * float(q @ row)) for row in rows]
        sink = math.exp(weight(case, "sinks")[head]) if node.weights else 0.0
        expected = sum(w * row for w, row in zip(weights, rows, strict=True))
        assert_close(y[t, head * spec.k_dim:][:spec.k_dim],
                     expected / (math.fsum(weights) + sink))


def test_heads_side_by_side(rng: np.random.Generator) -> None:
    for case in cases.registry()["concat"](rng):
        (y,), _, _ = on_paper(case)
        n_heads, n_shared = (int(case.node.attrs.get(key, default))
                             for key, default in (("n_heads", 1), ("n_shared", 0)))
        xs = [values(case, i) for i in range(len(case.node.inputs))]
        own, shared = xs[:len(xs) - n_shared], xs[len(xs) - n_shared:]
        t = int(rng.integers(len(y)))
        expected = [part for h in range(n_heads)
                    for part in (*(np.split(x[t], n_heads)[h] for x in own),
                                 *(x[t] for x in shared))]
        assert np.array_equal(y[t], np.concatenate(expected))
