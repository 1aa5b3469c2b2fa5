"""Weights that move to where they are read fastest change no logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from factory import Shape, write_model
from unladen import Model
from unladen.backends.cpu import moving

INTERLEAVED = [
    # A matrix whose rows are no multiple of sixteen, and which is also the table of tokens.
    (Shape(n_embd=256, n_ff=512, n_heads=8, n_kv_heads=2, n_vocab=301, tied=True, n_ctx=96),
     "Q4_K"),
    (Shape(n_embd=160, n_ff=352, n_heads=5, n_kv_heads=5, n_vocab=303, n_ctx=96), "Q8_0"),
    (Shape("qwen3moe", n_embd=256, n_ff=256, n_experts=5, n_ctx=96), "Q6_K"),
    (Shape(n_embd=256, n_ff=512, n_heads=8, n_kv_heads=2, n_ctx=96), "Q3_K"),
]
"""Models whose rows some kernels want interleaved."""
SHAPES = [*INTERLEAVED,
          (Shape(n_embd=256, n_ff=512, n_heads=8, n_kv_heads=2, n_ctx=96), "IQ3_S")]


def wants_some(level: str, quant: str) -> bool:
    """Whether kernels of ``level`` want rows of such a model copied. AVX2 wants only an output head
    that it reads in two parts; the one of Q8_0 isn't a multiple of 256.
    """
    return quant == "Q6_K" if level == "avx2" else level in ("avx512", "vbmi") and quant != "IQ3_S"


@pytest.mark.parametrize(("shape", "quant"), SHAPES)
def test_no_logit_changes(tmp_path: Path, rng: np.random.Generator, level: str, shape: Shape,
                          quant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interleaved = 0
    monkeypatch.delenv(moving.VARIABLE, raising=False)

    def give_back(file: object, data: np.ndarray) -> None:
        nonlocal interleaved
        interleaved += data.nbytes
    monkeypatch.setattr(moving, "PIECE_BYTES", 30_000)
    monkeypatch.setattr(moving, "give_back", give_back)
    path = write_model(tmp_path / "m.gguf", rng, shape, quant=quant)
    texts = [rng.integers(3, 200, n).tolist() for n in (1, 2, 9, 60)]
    with Model(path, devices=["cpu"], n_threads=2) as model:
        before = [model.logits(text) for text in texts]
        n_steps = 0
        while n_steps < 200:  # some of these steps move a piece of the weights
            model.logits([5])
            n_steps += 1
        between = [model.logits(text) for text in texts]
        model.engine.plan.settle()
        after = [model.logits(text) for text in texts]
    for expected, *others in zip(before, between, after, strict=True):
        for logits in others:
            assert np.array_equal(logits.view(np.uint32), expected.view(np.uint32))
    assert (interleaved > 0) == (wants_some(level, quant) and moving.SMAPS.exists())
