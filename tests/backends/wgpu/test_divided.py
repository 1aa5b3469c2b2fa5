"""Models divided over two devices on one adapter by rows and by heads; bytes planned and taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gpt2")


@pytest.mark.parametrize("split_mode", ["row", "tensor"])
def test_same_text_as_the_other_engine(shared: Path, split_mode: str) -> None:
    case = json.loads((shared / "models/refs/stories260K-f32.json").read_text())["cases"][0]
    with Model(shared / "models/stories260K-f32.gguf", devices=["wgpu:0", "wgpu:1"],
               split_mode=split_mode, kv_type="f32") as model:
        result = model.generate(case["prompt"], temperature=0.0, max_tokens=32)
        used = {line.split()[2] for line in model.placement().splitlines()}
    assert used == {"wgpu:0", "wgpu:1"}
    assert result.tokens == case["tokens"][:32]


@pytest.mark.parametrize("split_mode", ["row", "tensor"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_logits_agree_with_one_device(make_model: Callable[..., Path], arch: str, split_mode: str
                                      ) -> None:
    path = make_model(arch, n_embd=64, n_heads=4, n_kv_heads=4 if arch == "gpt2" else 2,
                      n_layers=2)
    tokens = list(range(3, 40))
    with Model(path, devices=["wgpu:0"], kv_type="f32") as model:
        whole = model.logits(tokens)
    with Model(path, devices=["wgpu:0", "wgpu:1"], split_mode=split_mode, kv_type="f32") as model:
        divided = model.logits(tokens)
    error = np.square(divided - whole).sum() / np.square(whole).sum()
    assert error < 1e-10


@pytest.mark.parametrize("options", [
    {"devices": ["wgpu:0"]}, {"devices": ["cpu", "wgpu:0"], "n_gpu_layers": 2},
    {"devices": ["wgpu:0", "wgpu:1"], "tensor_split": [1, 2]},
    {"devices": ["wgpu:0", "wgpu:1"], "split_mode": "row"}])
@pytest.mark.parametrize("quant", ["F32", "Q8_0"])
def test_planned_is_taken(make_model: Callable[..., Path], quant: str, options: dict[str, Any]
                          ) -> None:
    path = make_model("llama", n_embd=128, n_heads=4, n_kv_heads=2, n_layers=3, quant=quant)
    with Model(path, **options) as model:
        for memory in model.memory().devices:
            assert memory.taken_bytes is not None
            assert memory.taken_bytes == pytest.approx(memory.allocated_bytes, rel=0.01)


def test_the_same_text_streamed_or_not(make_model: Callable[..., Path]) -> None:
    """Long prompts and single tokens in turn, and a change between two steps."""
    path = make_model("llama", n_embd=64, n_heads=4, n_kv_heads=2, n_layers=3)
    prompt = list(range(3, 60))
    wishes = {"max_tokens": 8, "temperature": 0.0}
    with Model(path, devices=["cpu"], kv_type="f32") as model:
        expected = model.generate(prompt, **wishes).tokens
    with Model(path, devices=["wgpu:0", "cpu"], n_gpu_layers=1, kv_type="f32", stream_weights=True,
               batch_size=16) as model:
        assert "wgpu:0 in steps of 2 tokens or more" in model.placement()
        assert model.generate(prompt, **wishes).tokens == expected
        for memory in model.memory().devices:
            assert memory.taken_bytes == pytest.approx(memory.allocated_bytes, rel=0.01)
        stream = model.stream(prompt, **wishes)
        next(stream)
        model.place(stream_weights=False)
        assert "in steps of" not in model.placement()
        list(stream)
        assert stream.result.tokens == expected
