"""Attention over a paged cache, of every level and cache type, against NumPy in float64.

The reference sees K and V as the cache's type rounds them. Bounds come from counting roundings of
2^-24: a score's own error changes its weight by as much, relatively; the sums' roundings follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

import machines as cpu
from unladen import quants

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

U = 2.0**-24
KV_TYPES = ["f32", "f16", "q8_0"]

every_level = pytest.mark.parametrize("level", cpu.levels())


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)


def padded_blocks(x: Floats) -> Floats:
    """Rows cut into blocks of 32, the last one filled up with zeros."""
    width = -x.shape[-1] % 32
    return np.pad(x.reshape(-1, x.shape[-1]), ((0, 0), (0, width))).reshape(-1, 32)


def stored(x: Floats, kv_type: str) -> Doubles:
    """What a cache of this type gives back."""
    if kv_type == "f32":
        return x.astype(np.float64)
    if kv_type == "f16":
        return x.astype(np.float16).astype(np.float64)
    q8 = quants.registry()["Q8_0"]
    rows = q8.dequantize(q8.quantize(padded_blocks(x))).reshape(x.size // x.shape[-1], -1)
    return rows[:, :x.shape[-1]].reshape(x.shape).astype(np.float64)


def blocks_for(rng: np.random.Generator, n_keys: int, block_tokens: int) -> npt.NDArray[np.int32]:
    n = -(-n_keys // block_tokens)
    return rng.permutation(n + 3)[:n].astype(np.int32)


def causal(n_tasks: int, first: int) -> npt.NDArray[np.int32]:
    """Position and range of keys of each task: tokens in a row, the first of which sees so many."""
    last = np.arange(n_tasks) + first
    return np.stack([last - 1, 0 * last, last], axis=1).astype(np.int32)


@dataclass(frozen=True)
class Extras:
    """What a score meets beside its scale."""

    softcap: float = 0.0
    slopes: Floats | None = None
    sinks: Floats | None = None

    def score(self, products: Doubles, head: int, distance: Doubles) -> tuple[Doubles, Doubles]:
        """The final scores and what making them so costs, in absolute terms."""
        scores, cost = products, 0 * products
        if self.softcap:
            scores = self.softcap * np.tanh(products / self.softcap)
            cost = 10 * U * np.abs(scores)
        if self.slopes is not None:
            bias = distance * self.slopes[head].astype(np.float64)
            scores = scores - bias
            cost = cost + 2 * U * (bias + np.abs(scores))
        return scores, cost


def reference(q: Floats, k: Doubles, v: Doubles, seen: npt.NDArray[np.int32], scale: float,
              extras: Extras) -> tuple[Doubles, Doubles]:
    """The result and the bound of its error, both [n_tasks, n_heads, v_dim]."""
    n_tasks, n_heads, k_dim = q.shape
    group = n_heads // k.shape[1]
    y, bound = np.empty((2, n_tasks, n_heads, v.shape[2]))
    for task, (position, first, last) in enumerate(seen):
        n = last - first
        distance = np.abs(np.arange(first, last) - position).astype(np.float64)
        for head in range(n_heads):
            keys, values = k[first:last, head // group], v[first:last, head // group]
            products = keys @ q[task, head].astype(np.float64) * scale
            scores, cost = extras.score(products, head, distance)
            of_score = (2 * k_dim + 2) * U * (np.abs(keys) @ np.abs(q[task, head])) * abs(scale)
            of_score += cost
            if extras.sinks is not None:
                scores = np.append(scores, extras.sinks[head])
                of_score = np.append(of_score, 0.0)
                values = np.append(values, 0 * values[:1], axis=0)
            top = int(scores.argmax())
            p = np.exp(scores - scores[top])
            # Weights count in proportion to the largest, which thus has no error of its own.
            # An exponent is a difference to a score at most 8 below the largest.
            of_score += of_score[top] + U * (scores[top] - scores + 8)
            of_score[top] = 0
            # Where another may be the largest the limit keeps this finite; see below.
            of_weight = np.exp(np.minimum(scores - scores[top] + of_score, 600)) - p
            of_weight += p * U * (2 * n + 8 * (n // 64 + 2) + 8)
            p, of_weight = p / p.sum(), of_weight / p.sum()
            y[task, head] = p @ values
            of_y = of_weight @ (np.abs(values) + np.abs(y[task, head]))
            # Whatever the weights are: both are means of the values.
            bound[task, head] = np.minimum(of_y, 2.001 * np.abs(values).max(axis=0))
    return y, bound + 1e-35 * np.abs(v).max()


def check(rng: np.random.Generator, level: str, seen: npt.NDArray[np.int32], n_heads: int,
          n_kv_heads: int, k_dim: int, v_dim: int, types: tuple[str, str], size: float = 1.0,
          extras: Extras | None = None) -> Floats:
    """Attend with random arrays, scores of about ``size``, and compare."""
    extras = extras or Extras()
    n_tasks, n_keys = len(seen), int(seen[:, 2].max())
    block_tokens = int(rng.choice([1, 3, 16, 32, 100]))
    print(f"{n_heads=} {n_kv_heads=} {k_dim=} {v_dim=} {block_tokens=}", types, seen, extras)
    q = normal(rng, n_tasks, n_heads, k_dim) * np.float32(size)
    k, v = normal(rng, n_keys, n_kv_heads, k_dim), normal(rng, n_keys, n_kv_heads, v_dim)
    scale = float(np.float32(k_dim ** -0.5))
    y: Floats = cpu.attention(q, k, v, block_tokens, blocks_for(rng, n_keys, block_tokens), seen,
                              *types, scale, extras.softcap, extras.slopes, extras.sinks, level)
    expected, bound = reference(q, stored(k, types[0]), stored(v, types[1]), seen, scale, extras)
    assert (np.abs(y - expected) <= bound).all()
    return y


@every_level
@pytest.mark.parametrize("k_type", KV_TYPES)
@pytest.mark.parametrize("v_type", KV_TYPES)
def test_shapes(level: str, k_type: str, v_type: str, rng: np.random.Generator) -> None:
    dims = [1, 3, 8, 20, 32, 33, 64, 80, 96, 100, 128, 192]
    for group, n_kv_heads in [(1, 1), (1, 3), (2, 2), (4, 1), (5, 2), (7, 1), (8, 2)]:
        k_dim = int(rng.choice(dims))
        v_dim = k_dim if rng.random() < 0.5 else int(rng.choice(dims))
        n_tasks, first = int(rng.integers(1, 24)), int(rng.integers(1, 200))
        for seen in causal(n_tasks, first), causal(1, first):
            check(rng, level, seen, group * n_kv_heads, n_kv_heads, k_dim, v_dim, (k_type, v_type))


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_long_contexts(level: str, kv_type: str, rng: np.random.Generator) -> None:
    check(rng, level, causal(1, 3000), 4, 1, 64, 64, (kv_type, kv_type))
    check(rng, level, causal(6, 3000), 3, 1, 128, 128, (kv_type, kv_type))


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_wide_heads(level: str, kv_type: str, rng: np.random.Generator) -> None:
    """Those of multi-head latent attention (DeepSeek 2): one key for all query heads."""
    first = int(rng.integers(1, 150))
    for n_tasks, n_heads in [(1, 16), (3, 5)]:
        check(rng, level, causal(n_tasks, first), n_heads, 1, 576, 512, (kv_type, kv_type))


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_ranges_of_keys(level: str, kv_type: str, rng: np.random.Generator) -> None:
    """Any range per task, also none in common."""
    for n_tasks, n_keys in [(1, 300), (2, 300), (7, 70), (13, 500)]:
        ends = np.sort(rng.integers(0, n_keys + 1, (n_tasks, 2)), axis=1)
        ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
        seen = np.insert(ends, 0, rng.integers(0, n_keys, n_tasks), axis=1).astype(np.int32)
        check(rng, level, seen, 6, 2, 40, 24, (kv_type, kv_type))


@every_level
@pytest.mark.parametrize("softcap", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("sloping", [False, True])
@pytest.mark.parametrize("sinking", [False, True])
def test_scoring(level: str, softcap: float, sloping: bool, sinking: bool,
                 rng: np.random.Generator) -> None:
    n_heads = 6
    slopes = 2.0 ** -rng.uniform(0, 8, n_heads).astype(np.float32) if sloping else None
    for size in (0.01, 1.0, 30.0):
        sinks = normal(rng, n_heads) * np.float32(3 * size) if sinking else None
        for n_tasks, first in [(1, 200), (9, 1), (30, 100)]:
            check(rng, level, causal(n_tasks, first), n_heads, 2, 32, 32, ("f32", "f32"), size,
                  Extras(softcap, slopes, sinks))


@every_level
def test_every_small_number_of_keys(level: str, rng: np.random.Generator) -> None:
    check(rng, level, causal(130, 1), 2, 2, 8, 8, ("f16", "f16"))


@every_level
@pytest.mark.parametrize("size", [1e2, 1e4, 1e18])
def test_large_scores(level: str, size: float, rng: np.random.Generator) -> None:
    """Nothing overflows, and the winner takes all where it should."""
    y = check(rng, level, causal(5, 150), 4, 2, 64, 64, ("f32", "f32"), size)
    assert np.isfinite(y).all()


@every_level
def test_exponentials_down_to_nothing(level: str, rng: np.random.Generator) -> None:
    """Two keys with scores 0 and d: the second one's share is e^d / (1 + e^d)."""
    d = -rng.uniform(0, 120, (1, 8192, 1)).astype(np.float32)
    k = np.array([0, 1], np.float32).reshape(2, 1, 1)
    y = cpu.attention(d, k, k, 2, np.zeros(1, np.int32), causal(1, 2), "f32", "f32", 1.0, 0.0,
                      None, None, level)
    e = np.exp(d.astype(np.float64))
    expected = e / (1 + e)
    assert (np.abs(y - expected) <= 8 * U * expected + 2.0**-149).all()
    assert (y[d < -104] == 0).all()


@every_level
def test_caps_all_the_way(level: str, rng: np.random.Generator) -> None:
    """The same with scores 0 and -c tanh x: tanh within 6 roundings, and 4 for c and 1 / c."""
    x = np.exp(rng.uniform(-6, 3, (1, 8192, 1))).astype(np.float32)
    softcap = float(np.float32(rng.uniform(20, 60)))
    k = np.array([0, 1], np.float32).reshape(2, 1, 1)
    y = cpu.attention(x * np.float32(-softcap), k, k, 2, np.zeros(1, np.int32), causal(1, 2), "f32",
                      "f32", 1.0, softcap, None, None, level)
    score = softcap * np.tanh((x * np.float32(softcap)).astype(np.float64) / softcap)
    expected = 1 / (1 + np.exp(score))
    assert (np.abs(y - expected) <= (10 * score + 8) * U * expected).all()


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_neighbours_change_no_bit(level: str, kv_type: str, rng: np.random.Generator) -> None:
    """A task's bits don't depend on which others are computed with it: few rows or many."""
    few = 12
    for k_dim, v_dim, group in [(64, 64, 4), (20, 36, 3), (128, 128, 1)]:
        n_tasks, first = 19, int(rng.integers(1, 150))
        n_keys = first + n_tasks - 1
        q = normal(rng, n_tasks, 2 * group, k_dim)
        k, v = normal(rng, n_keys, 2, k_dim), normal(rng, n_keys, 2, v_dim)
        table = blocks_for(rng, n_keys, 16)
        rest = kv_type, kv_type, 0.2, 5.0, None, normal(rng, 2 * group), level
        seen = causal(n_tasks, first)
        seen[:, 1] = np.maximum(0, seen[:, 2] - int(rng.choice([5, 70, 1000])))
        for n, n_part in [(n_tasks, few // group + 1), (few // group, 1)]:
            together = cpu.attention(q[:n], k, v, 16, table, seen[:n], *rest)
            for i in range(n - n_part + 1):
                part = slice(i, i + n_part)
                alone = cpu.attention(q[part], k, v, 16, table, seen[part], *rest)
                assert (alone.view(np.uint32) == together[part].view(np.uint32)).all()


@every_level
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_other_keys_are_never_touched(level: str, poison: float, rng: np.random.Generator) -> None:
    """Whatever the cache holds beside a task's keys, it changes no bit of the task's result."""
    n_tasks, first, n_keys, window = 9, int(rng.integers(60, 190)), 200, int(rng.integers(1, 50))
    q, k, v = normal(rng, n_tasks, 4, 40), normal(rng, n_keys, 2, 40), normal(rng, n_keys, 2, 24)
    seen = causal(n_tasks, first)
    seen[:, 1] = seen[:, 2] - window
    table = blocks_for(rng, n_keys, 16)
    rest = 16, table, seen, "f16", "f16", 0.2, 0.0, None, None, level
    clean = cpu.attention(q, k, v, *rest)
    for early, late, kept in [(first - window, first + 4, slice(0, 5)),
                              (first + 5 - window, n_keys, slice(5, 9))]:
        dirty_k, dirty_v = k.copy(), v.copy()
        for a in dirty_k, dirty_v:
            a[:early], a[late:] = poison, poison
        dirty = cpu.attention(q, dirty_k, dirty_v, *rest)
        assert (clean[kept] == dirty[kept]).all()
        assert np.isnan(np.delete(dirty, kept, axis=0)).any()


@every_level
def test_stored_bits(level: str, rng: np.random.Generator) -> None:
    """float16 to the nearest, ties to even; Q8_0 as the format's reference quantizes. What float16
    can't hold becomes NaN, and a value whose key it can't hold begins with NaN."""
    values = normal(rng, 2, 996) * np.float32(10.0) ** rng.integers(-9, 6, (2, 996))
    edges = [0.0, -0.0, 65504.0, 65519.9, 65520.0, -1e30, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24,
             np.inf, -np.inf, 2.0**-14, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    x = np.concatenate([values, np.tile(np.array(edges, np.float32), (2, 2))], axis=1)
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    k, v = cpu.kv_store(x, x, "f16", "f32", level)
    k, v = k.view(np.float16).reshape(x.shape), v.view(np.float32).reshape(x.shape)
    fits = np.isfinite(half)
    assert (k.view(np.uint16)[fits] == half.view(np.uint16)[fits]).all()
    assert np.isnan(k[~fits]).all()
    assert np.isnan(v[:, 0]).all()
    assert (v.view(np.uint32)[:, 1:] == x.view(np.uint32)[:, 1:]).all()
    few = normal(rng, 3, 100)
    few[:, 32:64] = 0
    few[:, :4] = [[127, 0.5, -1.5, 2.5]]
    few[:, 4:32] = rng.integers(-254, 255, (3, 28)) / 2
    k, _ = cpu.kv_store(few, few, "q8_0", "q8_0", level)
    expected = quants.registry()["Q8_0"].quantize(padded_blocks(few))
    assert (k.reshape(-1, 34) == expected).all()


@every_level
@pytest.mark.parametrize("types", [("f16", "f16"), ("q8_0", "q8_0"), ("q8_0", "f32"),
                                   ("f16", "q8_0")])
def test_key_beyond_its_type_is_noticed(level: str, types: tuple[str, str],
                                        rng: np.random.Generator) -> None:
    """Its score could be minus infinity, and so its weight zero."""
    values = normal(rng, 2, 64)
    keys = normal(rng, 2, 64)
    keys[1, rng.integers(64)] = rng.choice([-1, 1]) * 1e8
    _, v = cpu.kv_store(keys, values, *types, level)
    scale = v.view(np.float32 if types[1] == "f32" else np.float16).reshape(2, -1)[:, 0]
    assert np.isfinite(scale[0])
    assert np.isnan(scale[1])


@every_level
def test_bad_arguments(level: str) -> None:
    q, k = np.ones((2, 4, 8), np.float32), np.ones((3, 2, 8), np.float32)
    table = np.arange(3, dtype=np.int32)

    def attend(q: Floats = q, k: Floats = k, v: Floats = k, table: npt.NDArray[np.int32] = table,
               first: int = 2, kv_type: str = "f32", sinks: Floats | None = None) -> object:
        return cpu.attention(q, k, v, 1, table, causal(2, first), kv_type, "f32", 1.0, 0.0, sinks,
                             sinks, level)

    attend(sinks=np.ones(4, np.float32))
    for wrong in ({"first": 3}, {"first": 0}, {"sinks": q[0, 0]}, {"table": table[:2]},
                  {"table": table - 1}, {"table": table + 1000}, {"kv_type": "q3"}, {"v": k[:2]},
                  {"q": q[:, :3]}, {"q": q[:, :, :7]}):
        with pytest.raises(ValueError, match=r"\w"):
            attend(**wrong)
