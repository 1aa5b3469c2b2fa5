"""The CPU's logits equal the reference's, for whole prompts and for prompts in pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from unladen.api import Model

Array = npt.NDArray[Any]

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "llama": [{}, {"n_heads": 6, "n_kv_heads": 3, "n_embd": 48, "tied": True, "biases": True},
              {"n_experts": 5, "n_used": 2}, {"n_heads": 2, "n_kv_heads": 1, "k_dim": 20,
                                              "v_dim": 12, "n_rot": 8}],
    "qwen2": [{}, {"tied": True, "n_heads": 4, "n_kv_heads": 4}],
    "qwen3": [{"k_dim": 16}, {"n_heads": 2, "n_kv_heads": 2}],
    "qwen3moe": [{"n_experts": 8, "n_used": 3, "k_dim": 16}],
    "gpt2": [{"n_kv_heads": 4}, {"n_kv_heads": 2, "n_heads": 2, "tied": True, "n_embd": 24}],
}

CASES = [(arch, i) for arch, variants in VARIANTS.items() for i in range(len(variants))]


def nmse(y: Array, expected: Array) -> float:
    """Mean squared error, as a share of the mean square."""
    return float(np.mean((y.astype(np.float64) - expected) ** 2) / np.mean(expected ** 2.0))


def logits(path: Path, tokens: list[int], device: str, **options: Any) -> Array:
    with Model(path, devices=[device], kv_type=options.pop("kv_type", "f32"), **options) as model:
        return model.logits(tokens)


def text(rng: np.random.Generator, n: int) -> list[int]:
    return [int(t) for t in rng.integers(0, 272, n)]


@pytest.mark.parametrize(("arch", "variant"), CASES)
def test_cpu_agrees_with_the_reference(arch: str, variant: int, make_model: Callable[..., Path],
                                       rng: np.random.Generator) -> None:
    path = make_model(arch, **VARIANTS[arch][variant])
    tokens = text(rng, 45)
    expected = logits(path, tokens, "reference")
    assert expected.shape == (45, 272) and expected.std() > 0.1
    assert nmse(logits(path, tokens, "reference", batch_size=7), expected) < 1e-10
    for batch_size in (512, 7, 1):
        y = logits(path, tokens, "cpu", batch_size=batch_size)
        assert nmse(y, expected) < 1e-8, batch_size


@pytest.mark.parametrize("quant", ["F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
@pytest.mark.parametrize("experts", [0, 4])
def test_quantized_weights(quant: str, experts: int, make_model: Callable[..., Path],
                           rng: np.random.Generator) -> None:
    """``precise`` equals the reference; 8-bit activations add noise of 2^-8 to each product."""
    path = make_model("llama", quant=quant, n_experts=experts)
    tokens = text(rng, 20)
    expected = logits(path, tokens, "reference")
    assert nmse(logits(path, tokens, "cpu", precise=True), expected) < 1e-8
    if not experts:  # where experts are chosen, noise may choose others
        assert nmse(logits(path, tokens, "cpu"), expected) < 1e-3


@pytest.mark.parametrize("kv_type", ["f16", "q8_0", ("f16", "f32")])
def test_cache_types(kv_type: str | tuple[str, str], make_model: Callable[..., Path],
                     rng: np.random.Generator) -> None:
    path = make_model("llama", n_heads=2, n_kv_heads=1, n_embd=64)
    tokens = text(rng, 40)
    expected = logits(path, tokens, "reference", kv_type=kv_type)
    # Stored values may round in the other direction where they differ in their last bit.
    assert nmse(logits(path, tokens, "cpu", kv_type=kv_type), expected) < 1e-5
    assert nmse(expected, logits(path, tokens, "reference")) < 1e-3
