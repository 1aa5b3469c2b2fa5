"""Writes a model with a long context that answers everything with one greeting, at little cost."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from unladen.gguf import GGUFWriter, open_gguf
from unladen.hub import INCLUDED

CONTEXT = 131_072
"""Tokens of its context. Agents want 65,536; Claude Code's first prompt alone has more of this
vocabulary."""
GREETING = "Hello."
"""What it says."""
WIDTH = 32
"""Numbers of an embedding, and of its only head: as few as the kernels take."""
SURE = 200.0
"""A logit beside which all others, which are 0, have no chance at any usual temperature."""
_OWN = ("tokenizer.", "general.")


def write_greeter(path: Path, *, again_and_again: bool = False) -> Path:
    """A model with the vocabulary and the template of ``tiny-chat``. ``again_and_again``: after the
    greeting comes the greeting, not the turn's end, so an answer lasts as long as it may.

    Its only layer reads the whole prompt, but adds nothing: the next token follows from the last
    one alone. After the line end that begins an answer comes the greeting, then the turn's end.
    """
    with open_gguf(INCLUDED["tiny-chat"]) as file:
        known = file.metadata
        kept = {key: (value, known.type_of(key)) for key, value in known.items()
                if key.startswith(_OWN) and key != "general.architecture"}
        pieces = [*known["tokenizer.ggml.tokens"]]
        end = known["tokenizer.ggml.eos_token_id"]
    writer = GGUFWriter(path, "llama")
    for name, value in {
            "context_length": CONTEXT, "embedding_length": WIDTH, "block_count": 1,
            "feed_forward_length": WIDTH, "attention.head_count": 1,
            "attention.head_count_kv": 1}.items():
        writer.set(f"llama.{name}", value, "UINT32")
    writer.set("llama.attention.layer_norm_rms_epsilon", 1e-5, "FLOAT32")
    for key, (value, kind) in kept.items():
        writer.set(key, value, kind)
    words = [_token(pieces, each) for each in _spoken(pieces)]
    said = [_token(pieces, "<0x0A>"), *words, words[0] if again_and_again else end]
    embedding, output = (np.zeros((len(pieces), WIDTH), np.float32) for _ in range(2))
    embedding[:, 0] = 1.0  # any other token: the turn ends
    output[end, 0] = SURE
    for place, (before, after) in enumerate(itertools.pairwise(said), start=1):
        embedding[before] = 0
        embedding[before, place] = 1.0
        output[after, place] = SURE
    square = np.zeros((WIDTH, WIDTH), np.float32)
    ones = np.ones(WIDTH, np.float32)
    for name, array in {"token_embd": embedding, "output": output, "output_norm": ones}.items():
        writer.add_tensor(f"{name}.weight", array)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{name}.weight", square)
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", ones)
    writer.write()
    return path


def _token(pieces: list[str], text: str) -> int:
    return pieces.index(text)


def _spoken(pieces: list[str]) -> list[str]:
    """The greeting in pieces of the vocabulary, the longest first."""
    found, rest = [], GREETING
    while rest:
        n = next(n for n in range(len(rest), 0, -1) if rest[:n] in pieces)
        found.append(rest[:n])
        rest = rest[n:]
    return found
