"""Models and rows to quantize. The models have the sizes on which the rules depend, and few rows.

The tests here use them, and tools/gen_quantize_answers.py, which gets llama.cpp's results for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from unladen.gguf import GGUFWriter

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Paper:
    """A model by its names and sizes."""

    arch: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    n_experts: int = 0
    tied: bool = False
    fused: bool = False
    n_cols: int = 256


MODELS = {
    "grouped": Paper("llama", 16, 32, 8),
    "plain": Paper("llama", 9, 8, 4, tied=True),
    "eight-experts": Paper("llama", 8, 32, 8, n_experts=8),
    "many-experts": Paper("qwen3moe", 6, 16, 4, n_experts=32),
    "70b": Paper("llama", 80, 64, 8),
    "65b": Paper("llama", 80, 64, 64),
    "72b": Paper("qwen2", 80, 64, 64, tied=True),
    "falcon": Paper("falcon", 32, 71, 1, fused=True),
    "gpt2": Paper("gpt2", 12, 12, 12, tied=True, fused=True),
    "narrow": Paper("llama", 4, 4, 4, n_cols=288),
    "odd": Paper("llama", 2, 4, 4, n_cols=40),
}


def shapes(m: Paper) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all tensors."""
    row = (2, m.n_cols)
    yield "token_embd.weight", row
    yield "output_norm.weight", (m.n_cols,)
    if m.arch == "gpt2":
        yield "position_embd.weight", row
    if not m.tied:
        yield "output.weight", row
    for i in range(m.n_layers):
        names = ["attn_qkv"] if m.fused else ["attn_q", "attn_k", "attn_v"]
        expert = (m.n_experts, *row) if m.n_experts else row
        suffix = "_exps" if m.n_experts else ""
        yield f"blk.{i}.attn_norm.weight", (m.n_cols,)
        for name in [*names, "attn_output"]:
            yield f"blk.{i}.{name}.weight", row
        if m.n_experts:
            yield f"blk.{i}.ffn_gate_inp.weight", row
        for name in ("ffn_up", "ffn_down") if m.fused else ("ffn_gate", "ffn_up", "ffn_down"):
            yield f"blk.{i}.{name}{suffix}.weight", expert


def write(path: Path, m: Paper, seed: int = 0) -> Path:
    """Write the model with random F32 weights."""
    writer = GGUFWriter(path, m.arch)
    eps = ("layer_norm_epsilon" if m.arch in ("falcon", "gpt2") else "layer_norm_rms_epsilon")
    sizes = {"context_length": 64, "embedding_length": m.n_cols, "block_count": m.n_layers,
             "feed_forward_length": m.n_cols, "attention.head_count": m.n_heads,
             "attention.head_count_kv": m.n_kv_heads}
    if m.n_experts:
        sizes |= {"expert_count": m.n_experts, "expert_used_count": 2,
                  "expert_feed_forward_length": m.n_cols}
    for key, value in sizes.items():
        writer.set(f"{m.arch}.{key}", value, "UINT32")
    writer.set(f"{m.arch}.attention.{eps}", 1e-5, "FLOAT32")
    rng = np.random.Generator(np.random.PCG64(seed))
    for name, shape in shapes(m):
        writer.add_tensor(name, rng.standard_normal(shape, np.float32))
    writer.write()
    return path


def rows(rng: np.random.Generator, n_rows: int, n_cols: int) -> Floats:
    """[n_rows, n_cols], at least 16 of 512: weights like those of models, and unusual ones."""
    x = rng.standard_normal((n_rows, n_cols)) * 0.02
    x[0], x[1], x[2], x[3] = 0, -0.0, 0.5, -0.25
    x[4], x[5] = np.abs(x[4]), -np.abs(x[5])
    x[6, :64] *= 1e-3
    x[6, 64:128] *= 1e-6
    x[7] = np.round(x[7] * 100) / 64
    x[8, ::16] = 4
    x[9] *= 1e-12
    x[10] *= 1e3
    x[11] *= np.repeat(10 ** rng.uniform(-6, 2, n_cols // 32), 32)
    x[12] *= np.repeat(10 ** rng.uniform(-6, 2, n_cols // 16), 16)
    x[13] = rng.standard_t(3, n_cols)
    x[14, rng.random(n_cols) < 0.6] = 0
    x[15] = x[15].astype(np.float16)
    return x.astype(np.float32)


def importance(rng: np.random.Generator, n_cols: int) -> Floats:
    """[n_cols] like that of real activations: a few columns matter much more than the others."""
    return (rng.random(n_cols) ** 4 * 10 ** rng.uniform(-4, 4)).astype(np.float32)
