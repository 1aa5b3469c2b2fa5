"""RWKV's tokenizer equals its definition."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from unladen.errors import GGUFError, InvalidArgument
from unladen.tokenizer import Tokenizer


def escaped(raw: bytes) -> str:
    return repr(raw)[2:-1]


def test_longest_token_first(random_text: Callable, rng: np.random.Generator) -> None:
    words = {bytes([b]) for b in range(256)}
    for _ in range(600):
        raw = random_text(rng).encode()
        start = int(rng.integers(len(raw)))
        words.add(raw[start:start + int(rng.integers(1, 9))])
    tokens = sorted(words)
    ours = Tokenizer.from_gguf({"tokenizer.ggml.model": "rwkv",
                                "tokenizer.ggml.tokens": [escaped(word) for word in tokens]})
    ids = {word: i for i, word in enumerate(tokens)}
    for text in (random_text(rng) for _ in range(500)):
        rest, expected = text.encode(), []
        while rest:
            word = max((rest[:n] for n in range(1, 9) if rest[:n] in ids), key=len)
            expected.append(ids[word])
            rest = rest[len(word):]
        assert ours.encode(text) == expected
        assert ours.decode(expected) == text


@pytest.mark.parametrize("token", ["\\", "a\\", "\\x", "\\x4", "\\xg0"])
def test_broken_escapes_are_named(token: str) -> None:
    with pytest.raises(GGUFError, match=r"tokenizer\.ggml\.tokens \[1\]"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "rwkv",
                             "tokenizer.ggml.tokens": ["a", token]})


def test_bytes_without_tokens() -> None:
    with pytest.raises(InvalidArgument, match="byte 98"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "rwkv",
                             "tokenizer.ggml.tokens": ["a"]}).encode("ab")
