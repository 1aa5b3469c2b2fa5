"""Taps on the device: values come back from it, and changed ones go there, between its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiny_model import N_VOCAB, write_tiny
from unladen import Model

BOUND = 1e-8
"""Normalized mean squared error: float32 sums on both sides."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("model") / "tiny.gguf", np.random.default_rng())


@pytest.mark.parametrize("options", [
    {"devices": ["wgpu:0"]}, {"devices": ["cpu", "wgpu:0"], "n_gpu_layers": 2},
    {"devices": ["cpu", "wgpu:0"], "n_gpu_layers": 1, "stream_weights": True}])
def test_values_and_changes(path: Path, options: dict[str, Any], rng: np.random.Generator) -> None:
    text = rng.integers(3, N_VOCAB, 21).tolist()
    add = {"blk.1.rope_k": 4 * rng.standard_normal(32).astype(np.float32),
           "blk.2.ffn_residual": 4 * rng.standard_normal(64).astype(np.float32)}
    found: list[dict[str, Any]] = []
    for wishes in (options, {"devices": ["reference"]}):
        with Model(path, kv_type="f32", batch_size=16, **wishes) as model:
            plain = model.generate(text, temperature=0.0, max_tokens=5).tokens
            with model.tap("*") as looked:
                assert model.generate(text, temperature=0.0, max_tokens=5).tokens == plain
            with model.tap("*", add=add) as changed:
                steered = model.generate(text, temperature=0.0, max_tokens=5).tokens
            assert model.generate(text, temperature=0.0, max_tokens=5).tokens == plain
        values = {f"{kind}{name}": taps[name] for kind, taps in (("", looked), ("+", changed))
                  for name in taps.names}
        found.append({"tokens": plain, "steered": steered, **values})
    mine, expected = found
    assert mine.keys() == expected.keys() and mine["tokens"] == expected["tokens"]
    assert mine["steered"] == expected["steered"] != mine["tokens"]
    for name in mine.keys() - {"tokens", "steered"}:
        assert mine[name].shape == expected[name].shape, name
        error = ((mine[name] - expected[name]).astype(np.float64) ** 2).sum()
        assert error <= BOUND * (expected[name].astype(np.float64) ** 2).sum(), name
