"""Norms, rotary positions and activations of every level against NumPy in float64.

Each bound is a count of roundings times 2^-24, the relative error of one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

import machines as cpu

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

U = 2.0**-24
TINY = 1e-36  # where float32 has no smaller normal numbers, or e^x is beyond its range

every_level = pytest.mark.parametrize("level", cpu.levels())


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)


def lengths(rng: np.random.Generator) -> list[int]:
    return [1, 3, 4, 15, 16, 17, 63, 64, 65, 2048, *map(int, rng.integers(1, 5000, 6))]


def sum_roundings(n: int) -> float:
    """The roundings of a sum or a sum of squares: at least 16 accumulators, then a tree."""
    return 2 * n / 16 + 8


def within(actual: Floats, expected: Doubles, bound: Doubles) -> None:
    assert actual.dtype == np.float32
    assert (np.abs(actual - expected) <= bound).all()


@every_level
def test_rms_norm(level: str, rng: np.random.Generator) -> None:
    for n in lengths(rng):
        x = normal(rng, n) * np.float32(10.0 ** rng.integers(-3, 4))
        w, eps = normal(rng, n), 1e-5
        wide = x.astype(np.float64)
        plain = wide / np.sqrt(np.mean(wide * wide) + np.float32(eps))
        roundings = sum_roundings(n) / 2 + 6
        within(cpu.rms_norm(x, None, eps, level), plain, roundings * U * np.abs(plain))
        expected = plain * w
        within(cpu.rms_norm(x, w, eps, level), expected, (roundings + 1) * U * np.abs(expected))


@every_level
@pytest.mark.parametrize("has_w", [False, True])
@pytest.mark.parametrize("has_b", [False, True])
def test_layer_norm(level: str, has_w: bool, has_b: bool, rng: np.random.Generator) -> None:
    for n in lengths(rng):
        x = normal(rng, n) + np.float32(rng.normal() * 3)
        w, b, eps = normal(rng, n) if has_w else None, normal(rng, n) if has_b else None, 1e-5
        wide = x.astype(np.float64)
        off = wide - wide.mean()
        scale = 1 / np.sqrt(np.mean(off * off) + np.float32(eps))
        factor = scale * (np.abs(w) if w is not None else 1.0)
        expected = off * scale * (w if w is not None else 1.0) + (b if b is not None else 0.0)
        shift = sum_roundings(n) * U * np.abs(wide).mean()
        bound = factor * (shift + np.abs(off) * ((sum_roundings(n) / 2 + 9) * U
                                                 + (shift * scale) ** 2)) + U * np.abs(expected)
        within(cpu.layer_norm(x, w, b, eps, level), expected, bound)


@every_level
@pytest.mark.parametrize("neox", [False, True])
def test_rope(level: str, neox: bool, rng: np.random.Generator) -> None:
    for head_dim in [2, 8, 32, 64, 80, 100, 128, *map(int, rng.integers(2, 300, 4))]:
        n_pairs = int(rng.integers(0, head_dim // 2 + 1)) if rng.random() < 0.5 else head_dim // 2
        x = normal(rng, int(rng.integers(1, 5)), head_dim)
        angle = rng.uniform(-1000, 1000, n_pairs)
        cs = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
        expected, size = x.astype(np.float64), np.zeros(x.shape)
        first = np.arange(n_pairs) if neox else 2 * np.arange(n_pairs)
        second = first + (n_pairs if neox else 1)
        a, b, c, s = expected[:, first], expected[:, second], *cs.T.astype(np.float64)
        size[:, first] = np.abs(a * c) + np.abs(b * s)
        size[:, second] = np.abs(a * s) + np.abs(b * c)
        expected[:, first], expected[:, second] = a * c - b * s, a * s + b * c
        within(cpu.rope(x, cs, neox, level), expected, 2 * U * size)


def logistic(z: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-z))


def tanh_argument(x: Doubles) -> Doubles:
    """Twice what the tanh form of GELU takes the tanh of."""
    return 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


def phi(x: Doubles) -> Doubles:
    return np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x])


# The function, and its roundings: e^z has 3, and z's own count by z, as they change e^z by that.
ACTIVATIONS: dict[str, tuple[Callable[[Doubles], Doubles], Callable[[Doubles], Doubles]]] = {
    "silu": (lambda x: x * logistic(x), lambda x: 6 + 0 * x),
    "gelu": (lambda x: x * logistic(tanh_argument(x)), lambda x: 6 + 5 * np.abs(tanh_argument(x))),
    "gelu_erf": (lambda x: x * phi(x), lambda x: 11 + x * x),
    "gelu_quick": (lambda x: x * logistic(1.702 * x), lambda x: 6 + 2 * np.abs(1.702 * x)),
    "relu": (lambda x: np.maximum(x, 0), lambda x: 0 * x),
    "relu_squared": (lambda x: np.maximum(x, 0) ** 2, lambda x: 1 + 0 * x),
}


@every_level
@pytest.mark.parametrize("act", ACTIVATIONS)
@np.errstate(over="ignore")
def test_activations(level: str, act: str, rng: np.random.Generator) -> None:
    function, roundings = ACTIVATIONS[act]
    x = np.concatenate([normal(rng, 20001), rng.uniform(-15, 15, 20001),
                        rng.uniform(-110, 110, 4000), [0.0, -0.0, 1e-30, -1e-30, 1e6, -1e6]])
    x = x.astype(np.float32)
    wide = x.astype(np.float64)
    expected = function(wide)
    bound = roundings(wide) * U * np.abs(expected) + TINY
    y = cpu.activate(x, act, level)
    within(y, expected, bound)
    up = normal(rng, len(x))
    assert (cpu.glu(x, up, act, level) == y * up).all()
    for n in [1, 5, *map(int, rng.integers(1, 200, 5))]:
        assert (cpu.activate(x[:n], act, level) == y[:n]).all()


@every_level
def test_exp_keeps_its_bound(level: str, rng: np.random.Generator) -> None:
    """Below -17, x / (1 + e^-x) is x / e^-x but for a rounding: it shows e^x itself."""
    x = rng.uniform(-88, -17, 300_000).astype(np.float32)
    expected = x * np.exp(x.astype(np.float64))
    within(cpu.activate(x, "silu", level), expected, (3 + 2) * U * np.abs(expected))


@every_level
def test_activations_pass_nan_on(level: str) -> None:
    x = np.full(37, np.nan, np.float32)
    for act in ACTIVATIONS:
        assert np.isnan(cpu.activate(x, act, level)).all()


@every_level
def test_sums(level: str, rng: np.random.Generator) -> None:
    for n in lengths(rng):
        a, b, s = normal(rng, n), normal(rng, n), float(np.float32(rng.normal()))
        assert (cpu.add(a, b, level) == a + b).all()
        expected = a + b.astype(np.float64) * s
        bound = U * (np.abs(expected) + np.abs(b * s))
        within(cpu.scale_add(a, b, s, level), expected, bound * (1 + 4 * U))


@every_level
def test_largest_of_each_sixteen(level: str, rng: np.random.Generator) -> None:
    for n in (1, 15, 16, 17, 100, 1024):
        sizes = np.float64(10) ** rng.integers(-44, 38, n)
        x = (rng.standard_normal(n) * sizes).astype(np.float32)
        x[rng.random(n) < rng.random()] = rng.choice([-np.inf, np.inf, 0.0, -0.0, 1e-40, -1e-40])
        for nan in (None, np.nan, -np.nan):
            if nan is not None:
                x[rng.integers(n)] = nan
            expected = [x[i:i + 16].max() for i in range(0, n, 16)]
            np.testing.assert_array_equal(cpu.largest(x, level), np.array(expected))


@every_level
def test_bad_arguments(level: str) -> None:
    x = np.ones(8, np.float32)
    with pytest.raises(ValueError, match="length"):
        cpu.rms_norm(x, x[:7], 1e-5, level)
    with pytest.raises(ValueError, match="dimensions"):
        cpu.rope(x.reshape(1, 8), np.ones((5, 2), np.float32), False, level)
    with pytest.raises(ValueError, match="no activation"):
        cpu.activate(x, "swish", level)
    with pytest.raises(ValueError, match="level"):
        cpu.activate(x, "silu", "mmx")
