"""Layers that only guess tokens ahead are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model
from unladen.errors import GGUFError
from unladen.gguf import GGUFWriter, open_gguf
from unladen.models import load_architecture
from unladen.quants import dequantize

Make = Callable[..., Path]
ARCHS = {"llama": {}, "qwen3moe": {"n_experts": 4}, "glm4moe": {"n_experts": 4}, "deepseek": {}}


def without_last_layer(path: Path, out: Path, keys: dict[str, Any]) -> Path:
    """A copy of the model without the layers from number 2 on."""
    with open_gguf(path) as file:
        writer = GGUFWriter(out, str(file.metadata["general.architecture"]))
        for key, value in file.metadata.items():
            if key != "general.architecture" and not key.endswith("nextn_predict_layers"):
                writer.set(key, keys.get(key, value))
        for name, info in file.tensors.items():
            if not name.startswith("blk.2."):
                writer.add_tensor(name, dequantize(info.quant, info.data, info.shape))
        writer.write()
    return out


@pytest.mark.parametrize("arch", ARCHS)
def test_the_others_answer_alone(arch: str, make_model: Make, tmp_path: Path,
                                 rng: np.random.Generator) -> None:
    n, norm = 32, "post_attention_norm" if arch == "glm4moe" else "ffn_norm"
    n_ff = [64, 64, 64]
    drafting = {"eh_proj": (n, 2 * n), "enorm": (n,), "hnorm": (n,), "shared_head_norm": (n,),
                "embed_tokens": (272, n), "shared_head_head": (272, n)}
    extra = {f"blk.2.nextn.{name}.weight": rng.standard_normal(shape, np.float32)
             for name, shape in drafting.items()}
    extra |= {f"blk.{i}.{norm}.weight": np.ones(n, np.float32) for i in range(3)}
    keys = {f"{arch}.nextn_predict_layers": 1, f"{arch}.feed_forward_length": n_ff,
            f"{arch}.expert_feed_forward_length": 64}
    path = make_model(arch, n_layers=3, keys=keys, extra=extra,
                      without=[f"blk.{i}.ffn_norm.weight" for i in range(3)], **ARCHS[arch])
    short = without_last_layer(path, tmp_path / "short.gguf", {
        f"{arch}.block_count": 2, f"{arch}.feed_forward_length": n_ff[:2]})
    tokens = [int(t) for t in rng.integers(0, 272, 9)]
    with Model(path) as whole, Model(short) as alone:
        assert whole.architecture.n_layers == alone.architecture.n_layers == 2
        np.testing.assert_array_equal(whole.logits(tokens), alone.logits(tokens))
        assert not any(".nextn." in name or name.startswith("blk.2.")
                       for name in whole.architecture.build().weights())


def test_counts_that_make_no_sense(make_model: Make) -> None:
    with pytest.raises(GGUFError):
        load_architecture(open_gguf(make_model(keys={"llama.nextn_predict_layers": -1})))


def test_lists_of_another_length_than_the_layers(make_model: Make) -> None:
    keys = {"llama.attention.head_count": [4] * 4}
    with pytest.raises(GGUFError, match="one value for each of 3 layers"):
        load_architecture(open_gguf(make_model(n_layers=3, keys=keys)))
