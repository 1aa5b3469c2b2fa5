"""Writes small, fast models with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from unladen.gguf import GGUFWriter
from unladen.quants import quantize

UNKNOWN, NORMAL, CONTROL, BYTE = 2, 1, 3, 6
BOS, EOS = 1, 2
FIRST_BYTE = 3
PIECES = [*(f"\u2581{c}" for c in "abcdefgh"), *"abcdefghijklmnopqrstuvwxyz.,", "\u2581", "ab"]
N_VOCAB = FIRST_BYTE + 256 + len(PIECES)

Floats = npt.NDArray[np.float32]


def write_tiny(path: Path, rng: np.random.Generator, *, arch: str = "llama", n_layers: int = 3,
               n_embd: int = 64, context: int = 256, quant: str = "F32",
               changed: Mapping[str, Floats] | None = None, template: str = "") -> Path:
    """A model of ``arch`` whose matrices are in ``quant``; ``changed`` replaces tensors,
    ``template`` is for conversations."""
    n_heads, n_kv_heads, n_ff = 4, 2, 2 * n_embd
    writer = GGUFWriter(path, arch)
    sizes = {"context_length": context, "embedding_length": n_embd, "block_count": n_layers,
             "feed_forward_length": n_ff, "attention.head_count": n_heads,
             "attention.head_count_kv": n_kv_heads}
    for key, value in sizes.items():
        writer.set(f"{arch}.{key}", value, "UINT32")
    writer.set(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5, "FLOAT32")
    for key, (field, kind) in vocabulary().items():
        writer.set(f"tokenizer.ggml.{key}", field, kind)
    if template:
        writer.set("tokenizer.chat_template", template, "STRING")
    kv = n_embd // n_heads * n_kv_heads
    tensors = {"token_embd.weight": _matrix(rng, N_VOCAB, n_embd, scale=1.0),
               "output.weight": _matrix(rng, N_VOCAB, n_embd, scale=2.0)}
    tensors["output.weight"][[0, BOS, EOS]] = 0  # so that they are never the likeliest
    tensors["output_norm.weight"] = _norm(rng, n_embd)
    for i in range(n_layers):
        shapes = {"attn_q": (n_embd, n_embd), "attn_k": (kv, n_embd), "attn_v": (kv, n_embd),
                  "attn_output": (n_embd, n_embd), "ffn_gate": (n_ff, n_embd),
                  "ffn_up": (n_ff, n_embd), "ffn_down": (n_embd, n_ff)}
        tensors |= {f"blk.{i}.{name}.weight": _matrix(rng, *shape, scale=1.0)
                    for name, shape in shapes.items()}
        tensors |= {f"blk.{i}.{name}.weight": _norm(rng, n_embd)
                    for name in ("attn_norm", "ffn_norm")}
    for name, weight in (tensors | dict(changed or {})).items():
        if weight.ndim == 2 and quant != "F32":
            writer.add_tensor(name, quantize(quant, weight), quant=quant, shape=weight.shape)
        else:
            writer.add_tensor(name, weight)
    writer.write()
    return path


def vocabulary() -> dict[str, tuple[Any, str | None]]:
    """Metadata of a SentencePiece vocabulary: control tokens, all bytes, a few letters."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *PIECES]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(PIECES)
    scores = [0.0] * FIRST_BYTE + [-1000.0] * 256 + [-float(i + 1) for i in range(len(PIECES))]
    return {"model": ("llama", None), "pre": ("default", None), "tokens": (pieces, None),
            "scores": (scores, "FLOAT32"), "token_type": (types, "INT32"),
            "bos_token_id": (BOS, "UINT32"), "eos_token_id": (EOS, "UINT32"),
            "unknown_token_id": (0, "UINT32"), "add_bos_token": (True, None),
            "add_eos_token": (False, None), "add_space_prefix": (False, None)}


def _matrix(rng: np.random.Generator, n: int, m: int, *, scale: float) -> Floats:
    return (rng.standard_normal((n, m)) * (scale / m ** 0.5)).astype(np.float32)


def _norm(rng: np.random.Generator, n: int) -> Floats:
    return rng.uniform(0.5, 1.5, n).astype(np.float32)
