"""Writes tiny models with random weights, one for each architecture."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cases.base import random_weights
from unladen import quants
from unladen.gguf import GGUFWriter

UNKNOWN, CONTROL, NORMAL, BYTE = 2, 3, 1, 6
"""Token types in GGUF's tokenizer.ggml.token_type."""

N_SPECIAL = 3
PIECES = ["▁", "▁a", "▁the", "e", "t", "o", "n", "he", "the", "▁on", "▁one", "▁to", "."]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model, with GGUF's names; 0: the size follows from the others."""

    arch: str = "llama"
    n_layers: int = 2
    n_embd: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    k_dim: int = 0
    v_dim: int = 0
    n_rot: int = 0
    n_ff: int = 64
    n_vocab: int = N_SPECIAL + 256 + len(PIECES)
    n_ctx: int = 96
    n_experts: int = 0
    n_used: int = 2
    tied: bool = False
    biases: bool = False

    @property
    def heads(self) -> tuple[int, int]:
        """The sizes of a head's key and value."""
        k_dim = self.k_dim or self.n_embd // self.n_heads
        return k_dim, self.v_dim or k_dim


def metadata(s: Shape) -> dict[str, Any]:
    """The hyper-parameters for ``s``, with the architecture's prefix."""
    k_dim, v_dim = s.heads
    eps = "layer_norm_epsilon" if s.arch == "gpt2" else "layer_norm_rms_epsilon"
    keys: dict[str, Any] = {
        "context_length": s.n_ctx, "embedding_length": s.n_embd, "block_count": s.n_layers,
        "feed_forward_length": s.n_ff, "attention.head_count": s.n_heads, f"attention.{eps}": 1e-5}
    if s.arch != "gpt2":
        keys |= {"attention.head_count_kv": s.n_kv_heads, "rope.freq_base": 10000.0}
    if s.k_dim or s.v_dim:
        keys |= {"attention.key_length": k_dim, "attention.value_length": v_dim}
    if s.n_rot:
        keys["rope.dimension_count"] = s.n_rot
    if s.n_experts:
        keys |= {"expert_count": s.n_experts, "expert_used_count": s.n_used}
    if s.arch == "qwen3moe":
        keys["expert_feed_forward_length"] = s.n_ff
    return {f"{s.arch}.{key}": value for key, value in keys.items()}


def tensors(s: Shape) -> dict[str, tuple[int, ...]]:
    """Every tensor's shape by name."""
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (s.n_vocab, s.n_embd),
                                          "output_norm.weight": (s.n_embd,)}
    if not s.tied:
        shapes["output.weight"] = (s.n_vocab, s.n_embd)
    if s.arch == "gpt2":
        shapes |= {"position_embd.weight": (s.n_ctx, s.n_embd), "output_norm.bias": (s.n_embd,)}
    for i in range(s.n_layers):
        layer = _attention(s) | _feed_forward(s)
        shapes |= {f"blk.{i}.{name}": shape for name, shape in layer.items()}
    return shapes


def _attention(s: Shape) -> dict[str, tuple[int, ...]]:
    n, (k_dim, v_dim) = s.n_embd, s.heads
    if s.arch == "gpt2":
        return {"attn_norm.weight": (n,), "attn_norm.bias": (n,), "attn_qkv.weight": (3 * n, n),
                "attn_qkv.bias": (3 * n,), "attn_output.weight": (n, n), "attn_output.bias": (n,)}
    rows = {"attn_q": s.n_heads * k_dim, "attn_k": s.n_kv_heads * k_dim,
            "attn_v": s.n_kv_heads * v_dim}
    shapes: dict[str, tuple[int, ...]] = {
        "attn_norm.weight": (n,), "attn_output.weight": (n, s.n_heads * v_dim),
        **{f"{name}.weight": (n_out, n) for name, n_out in rows.items()}}
    if s.biases or s.arch == "qwen2":
        shapes |= {f"{name}.bias": (n_out,) for name, n_out in rows.items()}
    if s.arch.startswith("qwen3"):
        shapes |= {"attn_q_norm.weight": (k_dim,), "attn_k_norm.weight": (k_dim,)}
    return shapes


def _feed_forward(s: Shape) -> dict[str, tuple[int, ...]]:
    n, e = s.n_embd, s.n_experts
    if e:
        return {"ffn_norm.weight": (n,), "ffn_gate_inp.weight": (e, n),
                "ffn_gate_exps.weight": (e, s.n_ff, n), "ffn_up_exps.weight": (e, s.n_ff, n),
                "ffn_down_exps.weight": (e, n, s.n_ff)}
    shapes: dict[str, tuple[int, ...]] = {
        "ffn_norm.weight": (n,), "ffn_up.weight": (s.n_ff, n), "ffn_down.weight": (n, s.n_ff)}
    if s.arch == "gpt2":
        return shapes | {"ffn_norm.bias": (n,), "ffn_up.bias": (s.n_ff,), "ffn_down.bias": (n,)}
    return shapes | {"ffn_gate.weight": (s.n_ff, n)}


def write_model(path: Path, rng: np.random.Generator, shape: Shape, *, quant: str = "F32",
                tokenizer: bool = True, keys: Mapping[str, Any] | None = None,
                extra: Mapping[str, np.ndarray[Any, Any]] | None = None,
                extra_blocks: Mapping[str, tuple[str, tuple[int, ...]]] | None = None,
                shapes: Mapping[str, tuple[int, ...]] | None = None,
                without: Collection[str] = ()) -> Path:
    """Write a model of ``shape`` whose matrices are in the format ``quant``.

    ``keys`` add to the usual keys or replace them; ``shapes`` replace the shapes of tensors; keys
    and tensors in ``without`` are left out. The tensors ``extra`` are added, and random tensors of
    the formats and shapes in ``extra_blocks``."""
    writer = GGUFWriter(path, shape.arch)
    values = metadata(shape) | (_vocabulary(shape.n_vocab) if tokenizer else {})
    for key, value in (values | dict(keys or {})).items():
        if key not in without:
            writer.set(key, value)
    for name, size in (tensors(shape) | dict(shapes or {})).items():
        if name not in without:
            _add(writer, rng, name, size, quant)
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    for name, (kind, size) in (extra_blocks or {}).items():
        raw = random_weights(rng, kind, int(np.prod(size)))
        writer.add_tensor(name, raw, quant=kind, shape=size)
    writer.write()
    return path


def write_bert(path: Path, rng: np.random.Generator, keys: Mapping[str, Any],
               more: Mapping[str, np.ndarray[Any, Any]] | None = None) -> Path:
    """Write a random encoder. ``keys``: more of its metadata, without "bert."; ``more``: more
    tensors."""
    n_embd = 32
    norms = ["token_embd_norm", *(f"blk.{i}.{name}_output_norm" for i in range(2)
                                  for name in ("attn", "layer"))]
    extra = {f"{name}.{part}": rng.standard_normal(n_embd, np.float32)
             for name in norms for part in ("weight", "bias")}
    extra["position_embd.weight"] = rng.standard_normal((96, n_embd), np.float32)
    extra["token_types.weight"] = rng.standard_normal((2, n_embd), np.float32)
    extra |= more or {}
    return write_model(path, rng, Shape("bert"), extra=extra, keys={
        "bert.attention.layer_norm_epsilon": 1e-5,
        **{f"bert.{key}": value for key, value in keys.items()}})


def _add(writer: GGUFWriter, rng: np.random.Generator, name: str, shape: tuple[int, ...],
         quant: str) -> None:
    if len(shape) == 1:
        centre = 1.0 if name.endswith("norm.weight") else 0.0
        writer.add_tensor(name, (centre + 0.2 * rng.standard_normal(shape)).astype(np.float32))
        return
    if "ffn_gate_inp" in name:
        quant = "F32"
    scale = 1.0 if "_embd" in name else shape[-1] ** -0.5
    values = (scale * rng.standard_normal(shape)).astype(np.float32)
    writable = quants.get(quant).quantize.__func__ is not quants.Quant.quantize.__func__
    raw = (quants.quantize(quant, values) if writable
           else random_weights(rng, quant, values.size)).reshape(-1)
    writer.add_tensor(name, raw, quant=quant, shape=shape)


def _vocabulary(n_vocab: int) -> dict[str, Any]:
    """A SentencePiece vocabulary: special tokens, every byte, a few pieces, then fillers."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *PIECES]
    names += [f"filler{i}" for i in range(n_vocab - len(names))]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * max(0, n_vocab - 259)
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": names[:n_vocab],
            "tokenizer.ggml.token_type": np.array(types[:n_vocab], np.int32),
            "tokenizer.ggml.scores": np.array([-float(i) for i in range(n_vocab)], np.float32),
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
