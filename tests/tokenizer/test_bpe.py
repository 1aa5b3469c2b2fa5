"""Byte-level BPE equals the tokenizers package; special cases."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unladen.errors import GGUFError, InvalidArgument, UnsupportedModel
from unladen.tokenizer import Tokenizer

oracle = pytest.importorskip("tokenizers", reason="the oracle is PyPI's tokenizers")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
EXPRESSIONS = {
    "gpt-2": [GPT2],
    "llama-bpe": [CL100K % "{1,3}"],
    "qwen2": [CL100K % ""],
    "smollm": [r"\p{N}", GPT2],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
}
N_STRINGS = 2000


def build_oracle(tokens: list[str], merges: list[tuple[str, str]], pre: str) -> Any:
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = oracle.Tokenizer(oracle.models.BPE(
        vocab=vocab, merges=merges, ignore_merges=pre == "llama-bpe"))
    splits = [oracle.pre_tokenizers.Split(oracle.Regex(e), "isolated") for e in EXPRESSIONS[pre]]
    tokenizer.pre_tokenizer = oracle.pre_tokenizers.Sequence(
        [*splits, oracle.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


@pytest.fixture(scope="module")
def trained(random_text: Callable) -> tuple[list[str], list[tuple[str, str]]]:
    """A vocabulary of 900 tokens learnt from random text: tokens and merges."""
    rng = np.random.default_rng(7)
    tokenizer = oracle.Tokenizer(oracle.models.BPE())
    tokenizer.pre_tokenizer = oracle.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = oracle.trainers.BpeTrainer(
        vocab_size=900, show_progress=False,
        initial_alphabet=oracle.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator((random_text(rng) for _ in range(5000)), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    assert len(model["merges"]) > 400
    return tokens, [(left, right) for left, right in model["merges"]]


def assert_same_ids(ours: Tokenizer, theirs: Any, texts: list[str]) -> None:
    for text, expected in zip(texts, theirs.encode_batch(texts), strict=True):
        ids = ours.encode(text, add_bos=False, special=False)
        assert ids == expected.ids, text
        assert ours.decode(ids) == text


@pytest.mark.parametrize("pre", EXPRESSIONS)
def test_same_ids_as_the_oracle(trained: tuple, random_text: Callable, rng: np.random.Generator,
                                pre: str) -> None:
    tokens, merges = trained
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges]})
    texts = [random_text(rng) for _ in range(N_STRINGS)]
    assert_same_ids(ours, build_oracle(tokens, merges, pre), texts)


def test_tokens_in_any_order(trained: tuple, random_text: Callable, rng: np.random.Generator
                             ) -> None:
    tokens, merges = rng.permutation(trained[0]).tolist(), trained[1]
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges]})
    texts = [random_text(rng) for _ in range(N_STRINGS)]
    assert_same_ids(ours, build_oracle(tokens, merges, "gpt-2"), texts)


def test_merges_of_long_texts(alphabet: list[str], rng: np.random.Generator) -> None:
    halves = ["a" * 2**i for i in range(11)]
    tokens = [*(a for a in alphabet if a != "a"), *halves]
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [f"{half} {half}" for half in halves[:-1]]})
    theirs = build_oracle(tokens, [(half, half) for half in halves[:-1]], "gpt-2")
    assert_same_ids(ours, theirs, ["a" * n for n in rng.integers(1, 4000, 50)] + ["a" * 1024])


@pytest.mark.parametrize(("name", "pre"), [("llama-bpe", "llama-bpe"), ("gpt-2", "gpt-2")])
def test_same_ids_with_published_vocabularies(published: Callable, random_text: Callable,
                                              rng: np.random.Generator, name: str, pre: str
                                              ) -> None:
    metadata = published(f"vocabs/ggml-vocab-{name}.gguf")
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    theirs = build_oracle(list(metadata["tokenizer.ggml.tokens"]), merges, pre)
    texts = [random_text(rng) for _ in range(N_STRINGS)]
    assert_same_ids(Tokenizer.from_gguf(metadata), theirs, texts)


@pytest.mark.parametrize("text", ["a" * 300_000, " " * 300_000, "\n " * 150_000, "'" * 300_000,
                                  "hello" * 60_000, "中" * 100_000])
def test_hostile_lengths_take_near_linear_time(bpe_metadata: dict, text: str) -> None:
    for pre in ("gpt-2", "llama-bpe", "default"):
        tokenizer = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.pre": pre})
        start = time.process_time()
        ids = tokenizer.encode(text)
        # A quadratic algorithm would take minutes.
        assert time.process_time() - start < 5
        assert tokenizer.decode(ids) == text


def test_merges_through_texts_without_tokens(alphabet: list[str]) -> None:
    tokenizer = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*alphabet, "abc"], "tokenizer.ggml.merges": ["a b", "ab c"]})
    assert [tokenizer.token_text(i) for i in tokenizer.encode("abcab")] == ["abc", "a", "b"]


def test_bytes_without_tokens(alphabet: list[str]) -> None:
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
                "tokenizer.ggml.tokens": ["<u>", "a"], "tokenizer.ggml.merges": []}
    with pytest.raises(InvalidArgument, match="byte 98"):
        Tokenizer.from_gguf(metadata).encode("ab")
    unknown = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.unknown_token_id": 0})
    assert unknown.encode("ab") == [1, 0]


def test_unknown_pre_tokenizer_is_an_error(bpe_metadata: dict) -> None:
    with pytest.raises(UnsupportedModel, match=r"'martian'.*known: .*llama-bpe"):
        Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.pre": "martian"})


def test_missing_pre_tokenizer_is_default_with_a_warning(
        bpe_metadata: dict, caplog: pytest.LogCaptureFixture) -> None:
    named = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.pre": "default"})
    del bpe_metadata["tokenizer.ggml.pre"]
    with caplog.at_level(logging.WARNING, "unladen"):
        unnamed = Tokenizer.from_gguf(bpe_metadata)
    assert "tokenizer.ggml.pre is missing" in caplog.text
    assert unnamed.encode("a$b 1234") == named.encode("a$b 1234")


def test_default_ids_hold_only_for_special_tokens(bpe_metadata: dict) -> None:
    del bpe_metadata["tokenizer.ggml.bos_token_id"]
    del bpe_metadata["tokenizer.ggml.eos_token_id"]
    assert Tokenizer.from_gguf(bpe_metadata).eos_id is None
    bpe_metadata["tokenizer.ggml.token_type"][11] = 3
    assert Tokenizer.from_gguf(bpe_metadata).eos_id == 11


@pytest.mark.parametrize("merge", ["nospace", "", " ", "a ", " b"])
def test_malformed_merges_are_named(bpe_metadata: dict, merge: str) -> None:
    bpe_metadata["tokenizer.ggml.merges"].append(merge)
    with pytest.raises(GGUFError, match=r"tokenizer\.ggml\.merges \[7\]"):
        Tokenizer.from_gguf(bpe_metadata)


def test_default_ids_in_a_file_without_types(alphabet: list[str]) -> None:
    """Token 11, BPE's default BOS and EOS, is often a comma, and then it is neither."""
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
                "tokenizer.ggml.merges": []}
    others = [token for token in alphabet if token != ","]
    tokens = [*others[:11], ",", *others[11:]]
    plain = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.tokens": tokens})
    assert plain.encode(",") == [11]
    assert plain.bos_id is None and plain.eos_id is None and not plain.eog_ids
    named = Tokenizer.from_gguf({**metadata, "tokenizer.ggml.tokens":
                                 [*tokens[:11], "<|endoftext|>", *tokens[11:]]})
    assert named.bos_id == named.eos_id == 11 and named.encode(",") == [12]
