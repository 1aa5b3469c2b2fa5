"""Frequencies of the rotary embedding equal the published formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.gguf import open_gguf
from unladen.models import load_architecture

N_ROT, HEAD = 32, {"n_heads": 2, "n_kv_heads": 1, "n_embd": 64, "n_ctx": 4096}
Make = Callable[..., Path]


def table(make_model: Make, keys: dict[str, Any] | None = None, **rest: Any
          ) -> tuple[list[float], float]:
    path = make_model(**HEAD, keys={f"llama.{k}": v for k, v in (keys or {}).items()}, **rest)
    (node,) = (n for n in load_architecture(open_gguf(path)).build().nodes if n.op == "rope_table")
    freqs = node.attrs["freqs"]
    assert isinstance(freqs, tuple)
    return list(freqs), node.float_attr("magnitude")


def plain(base: float) -> list[float]:
    return [1 / base ** (2 * i / N_ROT) for i in range(N_ROT // 2)]


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_plain(base: float, make_model: Make) -> None:
    freqs, magnitude = table(make_model, {"rope.freq_base": base})
    assert freqs == pytest.approx(plain(base), rel=1e-14)
    assert magnitude == 1.0


@pytest.mark.parametrize("keys", [
    {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, {"rope.scaling.factor": 4.0},
    {"rope.scale_linear": 4.0}])
def test_linear(keys: dict[str, Any], make_model: Make) -> None:
    freqs, magnitude = table(make_model, keys)
    assert freqs == pytest.approx([f / 4 for f in plain(10000.0)], rel=1e-14)
    assert magnitude == 1.0


@pytest.mark.parametrize("keys", [
    {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, {"rope.scaling.factor": 0.0},
    {"rope.scaling.type": "linear"}])
def test_nothing_to_scale(keys: dict[str, Any], make_model: Make) -> None:
    assert table(make_model, keys)[0] == pytest.approx(plain(10000.0), rel=1e-14)


def yarn(base: float, factor: float, original: int, fast: float, slow: float) -> list[float]:
    """Peng et al. 2023, section 3.2, with a blend that is linear in the dimension's number. A
    dimension rotates original / wavelength times within the original context."""
    def number_of(turns: float) -> float:
        wavelength = original / turns
        return N_ROT / 2 * math.log(wavelength / (2 * math.pi), base)

    first, last = math.floor(number_of(fast)), math.ceil(number_of(slow))
    first, last = max(first, 0), min(last, N_ROT - 1)
    result = []
    for i, freq in enumerate(plain(base)):
        if i <= first:
            kept = 1.0
        elif i >= last:
            kept = 0.0
        else:
            kept = 1 - (i - first) / (last - first)
        result.append(kept * freq + (1 - kept) * freq / factor)
    return result


@pytest.mark.parametrize("base", [10000.0, 1e6])
@pytest.mark.parametrize(("fast", "slow"), [(32.0, 1.0), (16.0, 2.0)])
def test_yarn(base: float, fast: float, slow: float, make_model: Make) -> None:
    freqs, magnitude = table(make_model, {
        "rope.freq_base": base, "rope.scaling.type": "yarn", "rope.scaling.factor": 8.0,
        "rope.scaling.original_context_length": 512, "rope.scaling.yarn_beta_fast": fast,
        "rope.scaling.yarn_beta_slow": slow})
    assert freqs == pytest.approx(yarn(base, 8.0, 512, fast, slow), rel=1e-12)
    assert magnitude == pytest.approx(0.1 * math.log(8) + 1)
    assert freqs[0] == 1.0 and freqs[-1] == pytest.approx(plain(base)[-1] / 8)


def test_yarn_takes_the_trained_context_and_a_magnitude(make_model: Make) -> None:
    freqs, magnitude = table(make_model, {"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0,
                                          "rope.scaling.attn_factor": 1.5})
    assert freqs == pytest.approx(yarn(10000.0, 2.0, 4096, 32.0, 1.0), rel=1e-12)
    assert magnitude == pytest.approx(1.5 * (0.1 * math.log(2) + 1))


def test_factors_of_their_own(make_model: Make, rng: np.random.Generator) -> None:
    factors = rng.uniform(1, 8, N_ROT // 2).astype(np.float32)
    freqs, _ = table(make_model, extra={"rope_freqs.weight": factors})
    expected = [f / float(d) for f, d in zip(plain(10000.0), factors, strict=True)]
    assert freqs == pytest.approx(expected, rel=1e-14)
