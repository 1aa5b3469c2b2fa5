"""Fixtures with small vocabularies and random text."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.tokenizer import Tokenizer

Metadata = dict[str, Any]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

_PIECES = [
    "the ", "Hello", " world", "don't", "WE'LL", "it's", "'S", "'re", "'\u017f", "I'd",
    "3.14", "2026", "\uff11\uff12\uff13", "٣", "½", "x²", " ", "  ", "   ", "\n", "\n\n", "\r\n",
    "\t", "\u00a0", "\u2003",
    "\u3000", "\u0085", "...", "!?", "$+<=>^~|`", "(a)", "_", "-", "'", "''", "中文字", "한국어",
    "हिन्दी", "العربية", "e\u0301", "ß", "🚀", "👩‍👩‍👧", "\ufe0f", "\u200b", "\x00", "\x1c", "\x7f",
    "ﬀ", "Ǆ", "Ⅷ", "々", "ー", "̈", "a", "b", "c", "aa", "ab", "ba", "▂",
]


def _assigned() -> list[str]:
    wanted = set("LNPSMZC")
    return [chr(c) for c in range(0x110000)
            if (category := unicodedata.category(chr(c)))[0] in wanted
            and category not in ("Cn", "Cs", "Co") and c != 0x2581]


@pytest.fixture(scope="session")
def random_text() -> Callable[[np.random.Generator], str]:
    """A maker of strings that mix what pre-tokenizers care about with any assigned character."""
    anything = _assigned()

    def make(rng: np.random.Generator) -> str:
        parts = []
        for _ in range(int(rng.integers(1, 16))):
            pool = anything if rng.random() < 0.2 else _PIECES
            parts.append(pool[int(rng.integers(len(pool)))])
        return "".join(parts)
    return make


@pytest.fixture(scope="session")
def alphabet() -> list[str]:
    """GPT-2's letter for each byte, by the definition: printable Latin-1 stands for itself."""
    printable = [b for b in range(256) if chr(b).isprintable() and b != 0x20]
    others = [b for b in range(256) if b not in printable]
    return [chr(b) if b in printable else chr(0x100 + others.index(b)) for b in range(256)]


@pytest.fixture
def bpe_metadata(alphabet: list[str]) -> Metadata:
    """A byte-level vocabulary with a few merges, control tokens and a user-defined token."""
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ", "ĠĠ ĠĠ"]
    tokens = [*alphabet, *(merge.replace(" ", "") for merge in merges)]
    special = ["<|begin|>", "<|endoftext|>", "<|end", "<tool>", "<tool>x"]
    types = [NORMAL] * len(tokens) + [CONTROL, CONTROL, CONTROL, USER_DEFINED, USER_DEFINED]
    n = len(tokens)
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens + special, "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": n, "tokenizer.ggml.eos_token_id": n + 1,
    }


@pytest.fixture
def spm_metadata() -> Metadata:
    """A SentencePiece vocabulary with byte tokens, some words and a user-defined token."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)),
              "▁", "h", "e", "l", "o", "he", "ll", "hell", "hello", "▁hello", "▁▁", "▁w", "中",
              "<tool>"]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * 13 + [USER_DEFINED]
    scores = [0.0] * 259 + [-float(i) for i in range(13)] + [0.0]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": scores,
    }


@pytest.fixture(scope="session")
def published(shared: Path) -> Callable[[str], Metadata]:
    """The tokenizer's metadata of a GGUF file in the shared folder, as this package reads it."""
    from unladen.gguf import open_gguf

    def load(name: str) -> Metadata:
        return dict(open_gguf(shared / name).metadata)
    return load


@pytest.fixture(scope="session")
def published_tokenizer(published: Callable[[str], Metadata]) -> Callable[[str], Tokenizer]:
    """The tokenizer of ``vocabs/ggml-vocab-NAME.gguf``."""
    @functools.cache
    def load(name: str) -> Tokenizer:
        return Tokenizer.from_gguf(published(f"vocabs/ggml-vocab-{name}.gguf"))
    return load


@pytest.fixture
def bpe(bpe_metadata: Metadata) -> Tokenizer:
    return Tokenizer.from_gguf(bpe_metadata)


@pytest.fixture
def spm(spm_metadata: Metadata) -> Tokenizer:
    return Tokenizer.from_gguf(spm_metadata)
