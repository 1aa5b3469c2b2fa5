"""Attention over a paged cache, of every level and cache type, against NumPy in float64.

The reference sees K and V as the cache's type rounds them. Bounds come from counting roundings of
2^-24: a score's own error changes its weight by as much, relatively; the sums' roundings follow.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from unladen import quants
from unladen._native import cpu

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


def reference(q: Floats, k: Doubles, v: Doubles, n_keys_first: int,
              scale: float) -> tuple[Doubles, Doubles]:
    """The result and the bound of its error, both [n_tasks, n_heads, v_dim]."""
    n_tasks, n_heads, k_dim = q.shape
    group = n_heads // k.shape[1]
    y, bound = np.empty((2, n_tasks, n_heads, v.shape[2]))
    for task in range(n_tasks):
        n = n_keys_first + task
        for head in range(n_heads):
            keys, values = k[:n, head // group], v[:n, head // group]
            scores = keys @ q[task, head].astype(np.float64) * scale
            top = int(scores.argmax())
            p = np.exp(scores - scores[top])
            of_score = (2 * k_dim + 2) * U * (np.abs(keys) @ np.abs(q[task, head])) * abs(scale)
            # Weights count in proportion to the largest, which thus has no error of its own.
            of_score += of_score[top] + U * (scores[top] - scores)
            of_score[top] = 0
            of_weight = np.exp(scores - scores[top] + of_score) - p
            of_weight += p * U * (2 * n + 8 * (n // 64 + 1) + 8)
            p, of_weight = p / p.sum(), of_weight / p.sum()
            y[task, head] = p @ values
            bound[task, head] = of_weight @ (np.abs(values) + np.abs(y[task, head]))
    return y, bound + 1e-35 * np.abs(v).max()


def check(rng: np.random.Generator, level: str, n_tasks: int, n_heads: int, n_kv_heads: int,
          k_dim: int, v_dim: int, first: int, types: tuple[str, str], size: float = 1.0) -> Floats:
    """Attend with random arrays, scores of about ``size``, and compare."""
    n_keys = first + n_tasks - 1
    block_tokens = int(rng.choice([1, 3, 16, 32, 100]))
    print(f"{n_tasks=} {n_heads=} {n_kv_heads=} {k_dim=} {v_dim=} {first=} {block_tokens=}", types)
    q = normal(rng, n_tasks, n_heads, k_dim) * np.float32(size)
    k, v = normal(rng, n_keys, n_kv_heads, k_dim), normal(rng, n_keys, n_kv_heads, v_dim)
    scale = float(np.float32(k_dim ** -0.5))
    y: Floats = cpu.attention(q, k, v, block_tokens, blocks_for(rng, n_keys, block_tokens), first,
                              *types, scale, level)
    expected, bound = reference(q, stored(k, types[0]), stored(v, types[1]), first, scale)
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
        check(rng, level, n_tasks, group * n_kv_heads, n_kv_heads, k_dim, v_dim, first,
              (k_type, v_type))
        check(rng, level, 1, group * n_kv_heads, n_kv_heads, k_dim, v_dim, first, (k_type, v_type))


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_long_contexts(level: str, kv_type: str, rng: np.random.Generator) -> None:
    check(rng, level, 1, 4, 1, 64, 64, 3000, (kv_type, kv_type))
    check(rng, level, 6, 3, 1, 128, 128, 3000, (kv_type, kv_type))


@every_level
def test_every_small_number_of_keys(level: str, rng: np.random.Generator) -> None:
    check(rng, level, 130, 2, 2, 8, 8, 1, ("f16", "f16"))


@every_level
@pytest.mark.parametrize("size", [1e2, 1e4, 1e18])
def test_large_scores(level: str, size: float, rng: np.random.Generator) -> None:
    """Nothing overflows, and the winner takes all where it should."""
    y = check(rng, level, 5, 4, 2, 64, 64, 150, ("f32", "f32"), size)
    assert np.isfinite(y).all()


@every_level
def test_exponentials_down_to_nothing(level: str, rng: np.random.Generator) -> None:
    """Two keys with scores 0 and d: the second one's share is e^d / (1 + e^d)."""
    d = -rng.uniform(0, 120, (1, 8192, 1)).astype(np.float32)
    k = np.array([0, 1], np.float32).reshape(2, 1, 1)
    y = cpu.attention(d, k, k, 2, np.zeros(1, np.int32), 2, "f32", "f32", 1.0, level)
    e = np.exp(d.astype(np.float64))
    expected = e / (1 + e)
    assert (np.abs(y - expected) <= 8 * U * expected + 2.0**-149).all()
    assert (y[d < -104] == 0).all()


@every_level
@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_together_as_alone(level: str, kv_type: str, rng: np.random.Generator) -> None:
    """A task's bits don't depend on which other tasks are computed with it."""
    for k_dim, v_dim, group in [(64, 64, 4), (20, 36, 3), (128, 128, 1)]:
        n_tasks, first = 19, int(rng.integers(1, 150))
        n_keys = first + n_tasks - 1
        q = normal(rng, n_tasks, 2 * group, k_dim)
        k, v = normal(rng, n_keys, 2, k_dim), normal(rng, n_keys, 2, v_dim)
        table = blocks_for(rng, n_keys, 16)
        rest = kv_type, kv_type, 0.2, level
        together = cpu.attention(q, k, v, 16, table, first, *rest)
        for i in range(n_tasks):
            alone = cpu.attention(q[i:i + 1], k, v, 16, table, first + i, *rest)
            assert (alone[0].view(np.uint32) == together[i].view(np.uint32)).all()


@every_level
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_keys_to_come_are_never_touched(level: str, poison: float,
                                        rng: np.random.Generator) -> None:
    """Whatever lies in the cache past a task's keys, it changes no bit of the task's result."""
    n_tasks, first, n_keys = 9, int(rng.integers(1, 130)), 200
    q, k, v = normal(rng, n_tasks, 4, 40), normal(rng, n_keys, 2, 40), normal(rng, n_keys, 2, 24)
    table = blocks_for(rng, n_keys, 16)
    rest = 16, table, first, "f16", "f16", 0.2, level
    clean = cpu.attention(q, k, v, *rest)
    k[first + 4:], v[first + 4:] = poison, poison
    dirty = cpu.attention(q, k, v, *rest)
    assert (clean[:5] == dirty[:5]).all()
    assert np.isnan(dirty[5:]).any()


@every_level
def test_stored_bits(level: str, rng: np.random.Generator) -> None:
    """float16 to the nearest, ties to even; Q8_0 as the format's reference quantizes."""
    values = normal(rng, 2, 996) * np.float32(10.0) ** rng.integers(-9, 6, (2, 996))
    edges = [0.0, -0.0, 65504.0, 65519.9, 65520.0, -1e30, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24,
             np.inf, -np.inf, 2.0**-14, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    x = np.concatenate([values, np.tile(np.array(edges, np.float32), (2, 2))], axis=1)
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    k, v = cpu.kv_store(x, x, "f16", "f32", level)
    assert (k.view(np.uint16) == half.view(np.uint16).ravel()).all()
    assert (v.view(np.uint32) == x.view(np.uint32).ravel()).all()
    few = normal(rng, 3, 100)
    few[:, 32:64] = 0
    few[:, :4] = [[127, 0.5, -1.5, 2.5]]
    few[:, 4:32] = rng.integers(-254, 255, (3, 28)) / 2
    k, _ = cpu.kv_store(few, few, "q8_0", "q8_0", level)
    expected = quants.registry()["Q8_0"].quantize(padded_blocks(few))
    assert (k.reshape(-1, 34) == expected).all()


@every_level
def test_bad_arguments(level: str) -> None:
    q, k = np.ones((2, 4, 8), np.float32), np.ones((3, 2, 8), np.float32)
    table = np.arange(3, dtype=np.int32)

    def attend(q: Floats = q, k: Floats = k, v: Floats = k, table: npt.NDArray[np.int32] = table,
               first: int = 2, kv_type: str = "f32") -> object:
        return cpu.attention(q, k, v, 1, table, first, kv_type, "f32", 1.0, level)

    attend()
    for wrong in ({"first": 3}, {"first": 0}, {"table": table[:2]}, {"table": table - 1},
                  {"kv_type": "q3"}, {"v": k[:2]}, {"q": q[:, :3]}, {"q": q[:, :, :7]},
                  {"table": table + 1000}):
        with pytest.raises(ValueError, match=r"\w"):
            attend(**wrong)
