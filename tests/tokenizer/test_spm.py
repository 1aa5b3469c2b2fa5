"""SentencePiece BPE equals a slow, direct implementation; special cases."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
import pytest

from unladen.errors import InvalidArgument
from unladen.tokenizer import Tokenizer


def slow_spm(text: str, tokens: list[str], scores: list[float]) -> list[str]:
    """Merge the two neighbours whose union scores highest (the leftmost of equals) until none is
    left."""
    score = dict(zip(tokens, scores, strict=True))
    row = list(text.replace(" ", "▁"))
    while True:
        pairs = [(-score[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(row))
                 if a + b in score]
        if not pairs:
            break
        i = min(pairs)[1]
        row[i:i + 2] = [row[i] + row[i + 1]]
    pieces = []
    for piece in row:
        pieces += [piece] if piece in score else [f"<0x{b:02X}>" for b in piece.encode()]
    return pieces


@pytest.mark.parametrize("words_apart", [True, False])
def test_same_pieces_as_the_slow_statement(rng: np.random.Generator, words_apart: bool) -> None:
    letters = "abcé中"
    for _ in range(60):
        inner = letters if words_apart else letters + "▁"
        words = {"".join(rng.choice(list(inner), rng.integers(2, 6))) for _ in range(40)}
        words |= {"▁" + word for word in list(words)[:15]} | {"▁▁", "▁▁▁▁"}
        tokens = sorted(words | set(letters[:-1]) | {"▁"})
        scores = [float(s) for s in rng.integers(-8, 1, len(tokens))]  # with many equal ones
        marks = [f"<0x{b:02X}>" for b in range(256)]
        tokenizer = Tokenizer.from_gguf({
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens + marks,
            "tokenizer.ggml.scores": scores + [0.0] * 256,
            "tokenizer.ggml.token_type": [1] * len(tokens) + [6] * 256,
            "tokenizer.ggml.add_space_prefix": False})
        for _ in range(20):
            text = "".join(rng.choice([*letters, " ", "x"], rng.integers(1, 40)))
            ids = tokenizer.encode(text)
            assert [tokenizer.token_text(i) for i in ids] == slow_spm(text, tokens, scores)
            assert tokenizer.decode(ids) == text


def test_random_text_survives(spm: Tokenizer, random_text: Callable, rng: np.random.Generator
                              ) -> None:
    for _ in range(2000):
        text = random_text(rng)
        assert spm.decode(spm.encode(text)) == text


@pytest.mark.parametrize("text", ["", " ", "  ", "hello", " hello", "hello ", "<tool> hello",
                                  "hello<tool>", "a<tool>b", "<tool><tool> ", "</s> hello</s>"])
def test_the_space_prefix_is_removed_once(spm: Tokenizer, text: str) -> None:
    assert spm.decode(spm.encode(text, add_bos=False), special=True) == text
    assert spm.decode(spm.encode(text, special=False)) == text


def test_space_prefix(spm: Tokenizer, spm_metadata: dict) -> None:
    assert [spm.token_text(i) for i in spm.encode("hello")] == ["<s>", "▁hello"]
    assert [spm.token_text(i) for i in spm.encode("hello<tool>hello", add_bos=False)] == [
        "▁hello", "<tool>", "▁hello"]
    bare = Tokenizer.from_gguf({**spm_metadata, "tokenizer.ggml.add_space_prefix": False})
    assert [bare.token_text(i) for i in bare.encode("hello")] == ["<s>", "hello"]
    continued = spm.encode("hello", add_bos=False)
    assert spm.decode(continued, at_start=False) == " hello"


@pytest.mark.parametrize("text", ["hello" * 60_000, " " * 300_000, "e" * 300_000, "é" * 100_000])
@pytest.mark.parametrize("piece", ["x", "l▁w"])  # with the second the whole text is one word
def test_hostile_lengths_take_near_linear_time(spm_metadata: dict, text: str, piece: str) -> None:
    for key, value in {"tokens": piece, "token_type": 1, "scores": -99.0}.items():
        spm_metadata[f"tokenizer.ggml.{key}"].append(value)
    tokenizer = Tokenizer.from_gguf(spm_metadata)
    start = time.process_time()
    ids = tokenizer.encode(text)
    assert time.process_time() - start < 5  # a quadratic way would take minutes
    assert tokenizer.decode(ids) == text


def test_characters_without_tokens(spm_metadata: dict) -> None:
    no_bytes = {**spm_metadata}
    for key in ("tokens", "token_type", "scores"):
        values = spm_metadata[f"tokenizer.ggml.{key}"]
        no_bytes[f"tokenizer.ggml.{key}"] = values[:3] + values[259:]
    tokenizer = Tokenizer.from_gguf(no_bytes)
    assert [tokenizer.token_text(i) for i in tokenizer.encode("hello éé中", add_bos=False)] == [
        "▁hello", "▁", "<unk>", "中"]
    no_bytes["tokenizer.ggml.token_type"] = [1] * len(no_bytes["tokenizer.ggml.tokens"])
    with pytest.raises(InvalidArgument, match="no token for 'é'"):
        Tokenizer.from_gguf(no_bytes).encode("é")


def test_text_spells_no_byte_or_control_token(spm_metadata: dict) -> None:
    pieces = ["<", "0x41>", "<0x41>", "/s>", "0", "x", "4", "1", ">", "/", "s", "<0", "<0x4", "1>",
              "<0x", "</", "s>"]
    spm_metadata["tokenizer.ggml.tokens"] += [p for p in pieces if p != "<0x41>"]
    spm_metadata["tokenizer.ggml.token_type"] += [1] * (len(pieces) - 1)
    spm_metadata["tokenizer.ggml.scores"] += [0.0] * (len(pieces) - 1)
    tokenizer = Tokenizer.from_gguf(spm_metadata)
    for text in ("<0x41>", "</s>"):
        ids = tokenizer.encode(text, special=False, add_bos=False)
        assert tokenizer.token_text(ids[0]) == "▁"
        assert len(ids) > 2
        assert tokenizer.decode(ids) == text


def test_files_without_types(spm_metadata: dict) -> None:
    del spm_metadata["tokenizer.ggml.token_type"]
    tokenizer = Tokenizer.from_gguf(spm_metadata)
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert tokenizer.is_control(2)
    assert tokenizer.decode(tokenizer.encode("hello ✓\n")) == "hello ✓\n"
