"""Kinds of tokenizer that change or cut text in their own way before BPE."""

from __future__ import annotations

from typing import Any

import pytest

from unladen.tokenizer import Tokenizer


@pytest.fixture
def dna(bpe_metadata: dict[str, Any]) -> Tokenizer:
    more = ["<dna>", "</dna>", "<oov>", "ACGTAC\ue000", "GAAAAA\ue000", "hell\ue000"]
    bpe_metadata["tokenizer.ggml.tokens"] += more
    bpe_metadata["tokenizer.ggml.token_type"] += [4, 4] + [1] * (len(more) - 2)
    return Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.model": "hybriddna"})


def test_six_bases_are_a_token(dna: Tokenizer) -> None:
    ids = dna.encode("hello<dna>ACGTACacgtacNNNNNNg</dna>hello")
    assert [dna.token_text(i).replace("\ue000", "*") for i in ids] == [
        "hello", "<dna>", "ACGTAC*", "ACGTAC*", "<oov>", "GAAAAA*", "</dna>", "hello"]
    assert dna.decode(ids) == "hello<dna>ACGTACACGTAC<oov>GAAAAA</dna>hello"
    unclosed = dna.encode("<dna>ACGTAC")
    assert len(unclosed) == 2 and dna.encode("ACGTAC") != unclosed[1:]
    assert dna.encode("</dna>") != [dna.encode("<dna></dna>")[1]]  # BPE, outside


def test_without_its_tokens_it_is_bpe(bpe_metadata: dict[str, Any]) -> None:
    plain = Tokenizer.from_gguf(bpe_metadata)
    other = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.model": "hybriddna"})
    assert other.encode("hello<dna>ACGTAC</dna>") == plain.encode("hello<dna>ACGTAC</dna>")


@pytest.mark.parametrize("lowercase", [None, False, True])
def test_spaces_separate_words(lowercase: bool | None) -> None:
    tokens = ["<unk>", "a", "b", "ab", "Ä", "ä", "abab"]
    made = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "whitespace", "tokenizer.ggml.pre": "whitespace",
        "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [2] + [1] * 6,
        "tokenizer.ggml.merges": ["a b", "ab ab"], "tokenizer.ggml.unknown_token_id": 0,
        **({} if lowercase is None else {"tokenizer.ggml.normalizer.lowercase": lowercase})})
    ids = made.encode("  ab\tabab\u3000Ä ")
    assert [made.token_text(i) for i in ids] == ["ab", "abab", "ä" if lowercase else "Ä"]
    assert made.encode(" \n ") == []
