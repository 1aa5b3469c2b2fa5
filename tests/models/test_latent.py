"""Latent attention from files with one matrix for keys and values, and with two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model

Make = Callable[..., Path]
N, HEADS, RANK, OWN, TURNED, VALUE = 32, 3, 16, 12, 4, 8


@pytest.mark.parametrize("query_rank", [0, 24])
def test_together_or_apart(query_rank: int, make_model: Make, rng: np.random.Generator) -> None:
    def weights(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rng.standard_normal(shape, np.float32) / np.float32(shape[-1] ** 0.5)

    key_dim, together, apart = OWN + TURNED, {}, {}
    extra = {"token_embd.weight": weights(272, N), "output.weight": weights(272, N),
             "output_norm.weight": np.ones(N, np.float32)}
    for i in range(2):
        layer = {"attn_kv_a_mqa": weights(RANK + TURNED, N), "attn_kv_a_norm": np.ones(
            RANK, np.float32), "attn_output": weights(N, HEADS * VALUE),
            "attn_norm": np.ones(N, np.float32), "ffn_norm": np.ones(N, np.float32),
            **{f"ffn_{part}": weights(*shape) for part, shape in (
                ("gate", (64, N)), ("up", (64, N)), ("down", (N, 64)))}}
        if query_rank:
            layer |= {"attn_q_a": weights(query_rank, N), "attn_q_a_norm": np.ones(
                query_rank, np.float32), "attn_q_b": weights(HEADS * key_dim, query_rank)}
        else:
            layer["attn_q"] = weights(HEADS * key_dim, N)
        extra |= {f"blk.{i}.{name}.weight": w for name, w in layer.items()}
        both = weights(HEADS, OWN + VALUE, RANK)
        together[f"blk.{i}.attn_kv_b.weight"] = both.reshape(-1, RANK)
        apart |= {f"blk.{i}.attn_k_b.weight": np.ascontiguousarray(
                      both[:, :OWN].transpose(0, 2, 1)),
                  f"blk.{i}.attn_v_b.weight": np.ascontiguousarray(both[:, OWN:])}
    keys = {f"deepseek2.{key}": value for key, value in {
        "attention.kv_lora_rank": RANK, "attention.q_lora_rank": query_rank,
        "rope.dimension_count": TURNED, "rope.scaling.type": "yarn", "rope.scaling.factor": 8.0,
        "rope.scaling.yarn_log_multiplier": 0.07, "rope.scaling.original_context_length": 32,
        "attention.head_count": HEADS}.items()}
    sizes = ({"head_count_kv": HEADS, "key_length": key_dim, "value_length": VALUE},
             {"head_count_kv": 1, "key_length": RANK + TURNED, "value_length": RANK,
              "key_length_mla": key_dim, "value_length_mla": VALUE})
    unused = [*extra, *(f"blk.{i}.attn_{part}.weight" for i in range(2) for part in "qkv")]
    answers, tokens = [], [int(t) for t in rng.integers(0, 272, 40)]
    for size, own in zip(sizes, (together, apart), strict=True):
        path = make_model("deepseek2", without=unused, extra={**extra, **own}, keys={
            **keys, **{f"deepseek2.attention.{key}": value for key, value in size.items()}})
        with Model(path, kv_type="f32") as model:
            answers.append(model.logits(tokens).astype(np.float64))
    one, other = answers
    # Float32 sums in another order differ as much as between engines: see
    # docs/reference/architectures.md.
    assert np.sum((one - other) ** 2) < 1e-9 * np.sum(one ** 2)
