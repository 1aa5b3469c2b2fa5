"""Trained models give the answers of an independent engine (llama.cpp with an f32 cache)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SHARED

from unladen import Model

F32 = ("stories260K-f32", "tinystories656K-f32", "tinystories656K-qwen2-f32",
       "makemore-induction-gpt2-f32")
MARGIN = 0.05
"""Quantized runs are compared if the best token leads by more than this at every step."""


def _cases(shared: Path, name: str) -> list[dict[str, Any]]:
    return list(json.loads((shared / f"models/refs/{name}.json").read_text())["cases"])


def _q8_0() -> list[str]:
    names = [p.stem for p in sorted((SHARED / "models/refs").glob("*q8_0.json"))]
    return [n for n in names if any(c["min_top1_top2_margin"] > MARGIN for c in _cases(SHARED, n))]


def test_a_q8_0_model_has_clear_margins(shared: Path) -> None:
    assert _q8_0()


@pytest.mark.parametrize("name", F32)
def test_f32_token_for_token(shared: Path, name: str) -> None:
    with Model(shared / f"models/{name}.gguf", kv_type="f32") as model:
        for case in _cases(shared, name):
            assert model.tokenize(case["prompt"]) == case["prompt_tokens"]
            result = model.generate(case["prompt"], temperature=0.0, logprobs=0,
                                    max_tokens=len(case["tokens"]))
            assert result.tokens == case["tokens"]
            assert result.text == case["text"]
            assert result.logprobs is not None
            for mine, expected in zip(result.logprobs, case["token_logprobs"], strict=True):
                assert abs(mine.logprob - expected) < 1e-3


@pytest.mark.parametrize(("kv_type", "precise"), [("f32", False), ("f16", True)])
@pytest.mark.parametrize("name", _q8_0())
def test_q8_0_token_for_token(shared: Path, name: str, kv_type: str, precise: bool) -> None:
    """The answers were made with a float32 cache. Activations of 8 bits move these logits by up to
    0.3. With a float16 cache in addition even the answering engine writes some other tokens, so
    that cache is tried with float32 activations."""
    cases = [c for c in _cases(shared, name) if c["min_top1_top2_margin"] > MARGIN]
    with Model(shared / f"models/{name}.gguf", kv_type=kv_type, precise=precise) as model:
        for case in cases:
            result = model.generate(case["prompt"], temperature=0.0,
                                    max_tokens=len(case["tokens"]))
            assert result.tokens == case["tokens"]


def test_default_settings_write_the_same_text(shared: Path) -> None:
    """The command line gives the same answers with its default f16 cache."""
    with Model(shared / "models/stories260K-f32.gguf") as model:
        for case in _cases(shared, "stories260K-f32"):
            assert model.generate(case["prompt"], temperature=0.0, max_tokens=96
                                  ).text == case["text"]


@pytest.mark.parametrize("name", F32)
def test_reference_agrees_on_the_first_tokens(shared: Path, name: str) -> None:
    with Model(shared / f"models/{name}.gguf", kv_type="f32", devices=["reference"]) as model:
        for case in _cases(shared, name):
            n = min(12, len(case["tokens"]))
            result = model.generate(case["prompt"], temperature=0.0, logprobs=0, max_tokens=n)
            assert result.tokens == case["tokens"][:n]
            assert result.logprobs is not None
            for mine, expected in zip(result.logprobs, case["token_logprobs"][:n], strict=True):
                assert abs(mine.logprob - expected) < 1e-3
