"""Writes a tiny model as GGUF: matrices as Q8_0, norms as F32, all the metadata it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dialogues import TEMPLATE
from vocab import BOS, EOS, FIRST_BYTE, SPACE, SPECIAL, UNK, scores

from unladen.gguf import GGUFWriter
from unladen.quants import quantize

UNKNOWN, NORMAL, CONTROL, OWN, BYTE = 2, 1, 3, 4, 6
"""Token types in GGUF's tokenizer.ggml.token_type; OWN tokens are defined by the user."""
MOSTLY_Q8_0 = 7
"""GGUF's general.file_type for Q8_0 matrices."""


def text(pieces: Sequence[str], ids: Sequence[int]) -> str:
    """The text of the tokens ``ids``. Control tokens become their names; BOS is left out."""
    raw = b"".join(bytes([i - FIRST_BYTE]) if FIRST_BYTE <= i < FIRST_BYTE + 256
                   else pieces[i].encode() for i in ids if i != BOS)
    return raw.decode(errors="replace").replace(SPACE, " ").strip()


@dataclass(frozen=True)
class About:
    """What a file says of its model beside its sizes."""

    name: str
    description: str
    tags: tuple[str, ...]
    marks: Mapping[str, int] = field(default_factory=dict)
    """Types of the last pieces, which are tokens of their own."""
    end: str = SPECIAL[EOS]
    """The piece that ends a generation."""
    template: str = ""
    adds_bos: bool = True
    adds_space: bool = True
    """Whether a space is put before a text."""


STORIES = About(
    "unladen tiny", "Writes little stories in plain English. Trained on nothing but stories "
    "composed by tools/tiny/stories.py.", ("text-generation", "stories"))
CHAT = About(
    "unladen tiny chat", "Answers in plain English, calls tools, tells short stories. Trained on "
    "nothing but dialogues composed by tools/tiny/dialogues.py.", ("text-generation", "chat"),
    {"<|im_start|>": CONTROL, "<|im_end|>": CONTROL, "<think>": OWN, "</think>": OWN,
     "<tool_call>": OWN, "</tool_call>": OWN},
    "<|im_end|>", TEMPLATE, adds_bos=False, adds_space=False)


def metadata(shape: Any, n_parameters: int, about: About) -> dict[str, Any]:
    """GGUF's keys and values for the model; its vocabulary is separate."""
    return {
        "general.type": "model",
        "general.name": about.name,
        "general.author": "The unladen authors",
        "general.license": "apache-2.0",
        "general.description": about.description,
        "general.languages": ["en"],
        "general.tags": list(about.tags),
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
          weights: Mapping[str, npt.NDArray[np.float32]], about: About) -> None:
    """Write ``path``: ``weights`` by GGUF name (output tied to token_embd), ``pieces`` by id."""
    writer = GGUFWriter(path, "llama")
    n_parameters = sum(w.size for w in weights.values())
    for key, value in metadata(shape, n_parameters, about).items():
        writer.set(key, value)
    first = FIRST_BYTE + 256
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    types += [about.marks.get(piece, NORMAL) for piece in pieces[first:]]
    end = pieces.index(about.end)
    writer.set("tokenizer.ggml.model", "llama")
    writer.set("tokenizer.ggml.pre", "default")
    writer.set("tokenizer.ggml.tokens", list(pieces))
    writer.set("tokenizer.ggml.scores", scores(pieces), "FLOAT32")
    writer.set("tokenizer.ggml.token_type", types, "INT32")
    for name, token in (("bos", BOS), ("eos", end), ("unknown", UNK)):
        writer.set(f"tokenizer.ggml.{name}_token_id", token)
    for name, on in (("add_bos_token", about.adds_bos), ("add_eos_token", False),
                     ("add_space_prefix", about.adds_space)):
        writer.set(f"tokenizer.ggml.{name}", on)
    if about.template:
        writer.set("tokenizer.ggml.eot_token_id", end)
        writer.set("tokenizer.chat_template", about.template)
    for name, weight in weights.items():
        if weight.ndim == 2:
            writer.add_tensor(name, quantize("Q8_0", weight), quant="Q8_0", shape=weight.shape)
        else:
            writer.add_tensor(name, weight)
    writer.write()
