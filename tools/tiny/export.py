"""Writes the tiny model as GGUF: matrices as Q8_0, norms as F32, all the metadata it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from vocab import BOS, EOS, FIRST_BYTE, SPACE, UNK, scores

from unladen.gguf import GGUFWriter
from unladen.quants import quantize

UNKNOWN, NORMAL, CONTROL, BYTE = 2, 1, 3, 6
"""Token types in GGUF's tokenizer.ggml.token_type."""
MOSTLY_Q8_0 = 7
"""GGUF's general.file_type for Q8_0 matrices."""


def text(pieces: Sequence[str], ids: Sequence[int]) -> str:
    """The text of the tokens ``ids``. Control tokens become their names; BOS is left out."""
    raw = b"".join(bytes([i - FIRST_BYTE]) if FIRST_BYTE <= i < FIRST_BYTE + 256
                   else pieces[i].encode() for i in ids if i != BOS)
    return raw.decode(errors="replace").replace(SPACE, " ").strip()


def metadata(shape: Any, n_parameters: int) -> dict[str, Any]:
    """GGUF's keys and values for the model; its vocabulary is separate."""
    return {
        "general.type": "model",
        "general.name": "unladen tiny",
        "general.author": "The unladen authors",
        "general.license": "apache-2.0",
        "general.description": "Writes little stories in plain English. Trained on nothing but "
                               "stories composed by tools/tiny/stories.py.",
        "general.languages": ["en"],
        "general.tags": ["text-generation", "stories"],
        "general.size_label": f"{n_parameters / 1e6:.1f}M",
        "general.file_type": MOSTLY_Q8_0,
        "general.quantization_version": 2,
        "llama.context_length": shape.n_ctx,
        "llama.embedding_length": shape.n_embd,
        "llama.block_count": shape.n_layer,
        "llama.feed_forward_length": shape.n_ff,
        "llama.attention.head_count": shape.n_head,
        "llama.attention.head_count_kv": shape.n_head,
        "llama.attention.layer_norm_rms_epsilon": shape.rms_eps,
        "llama.rope.dimension_count": shape.head_dim,
        "llama.rope.freq_base": shape.rope_freq_base,
        "llama.vocab_size": shape.n_vocab,
    }


def write(path: Path, shape: Any, pieces: Sequence[str],
          weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
    """Write ``path``: ``weights`` by GGUF name (output tied to token_embd), ``pieces`` by id."""
    writer = GGUFWriter(path, "llama")
    n_parameters = sum(w.size for w in weights.values())
    for key, value in metadata(shape, n_parameters).items():
        writer.set(key, value)
    first = FIRST_BYTE + 256
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(pieces) - first)
    writer.set("tokenizer.ggml.model", "llama")
    writer.set("tokenizer.ggml.pre", "default")
    writer.set("tokenizer.ggml.tokens", list(pieces))
    writer.set("tokenizer.ggml.scores", scores(pieces), "FLOAT32")
    writer.set("tokenizer.ggml.token_type", types, "INT32")
    for name, token in (("bos", BOS), ("eos", EOS), ("unknown", UNK)):
        writer.set(f"tokenizer.ggml.{name}_token_id", token)
    for name, on in (("add_bos_token", True), ("add_eos_token", False),
                     ("add_space_prefix", True)):
        writer.set(f"tokenizer.ggml.{name}", on)
    for name, weight in weights.items():
        if weight.ndim == 2:
            writer.add_tensor(name, quantize("Q8_0", weight), quant="Q8_0", shape=weight.shape)
        else:
            writer.add_tensor(name, weight)
    writer.write()
