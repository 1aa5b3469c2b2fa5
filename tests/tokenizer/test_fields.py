"""Hostile metadata: every fault raises an error that names its key."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any

import numpy as np
import pytest

from unladen.errors import GGUFError, UnladenError
from unladen.tokenizer import Tokenizer
from unladen.tokenizer.fields import BufferedStrings, Fields


def put(metadata: dict, key: str, value: Any) -> dict:
    metadata = {**metadata, f"tokenizer.ggml.{key}": value}
    return {k: v for k, v in metadata.items() if v is not None}


@pytest.mark.parametrize(("key", "value", "problem"), [
    ("tokens", None, "is missing"), ("tokens", "abc", "isn't an array of strings"),
    ("tokens", [1, 2], "isn't an array of strings"), ("tokens", 3, "isn't an array of strings"),
    ("tokens", ["x" * 4097], "4097 in one token"),
    ("tokens", ["x" * 4000] * 18_000, "72000000 bytes"),
    ("scores", None, "is missing"), ("scores", [0.0], "has 1 values for"),
    ("scores", ["a"] * 273, "kind"), ("scores", [[0.0]], "kind"),
    ("token_type", [1], "has 1 values for"),
    ("token_type", [1] * 272 + [9], "type 9 for token 272"),
    ("token_type", [-1] * 273, "type -1"), ("token_type", [1.5] * 273, "kind"),
    ("token_type", object(), "kind"),
    ("add_bos_token", 2, "isn't a boolean"), ("tokens", ["a\udc80"] * 273, "isn't Unicode"),
    ("add_space_prefix", "no", "isn't a boolean"), ("model", 5, "isn't a string"),
])
def test_faults_are_named(spm_metadata: dict, key: str, value: Any, problem: str) -> None:
    assert len(spm_metadata["tokenizer.ggml.tokens"]) == 273
    with pytest.raises(GGUFError, match=rf"tokenizer\.ggml\.{key} .*{re.escape(problem)}"):
        Tokenizer.from_gguf(put(spm_metadata, key, value))


def test_long_tokens_that_are_searched_for(spm_metadata: dict) -> None:
    spm_metadata["tokenizer.ggml.tokens"][-1] = "x" * 513
    with pytest.raises(GGUFError, match=r"special token 272 of 513 bytes"):
        Tokenizer.from_gguf(spm_metadata)
    spm_metadata["tokenizer.ggml.token_type"][-1] = 1
    assert Tokenizer.from_gguf(spm_metadata).n_vocab == 273
    for kind in ("bert", "t5", "plamo2", "rwkv"):
        with pytest.raises(GGUFError, match=r"tokenizer\.ggml\.tokens .* 513 in one token"):
            Tokenizer.from_gguf(put(spm_metadata, "model", kind))


@pytest.mark.parametrize("n", [4, 60, 400])
def test_hostile_merges_take_near_linear_time(n: int) -> None:
    """Each token is one letter longer than the one before, and the shortest merge comes last."""
    tokens = ["a" * i for i in range(1, n + 1)]
    merges = [f"{'a' * i} a" for i in range(1, n)]
    for order in (merges, merges[::-1]):
        tokenizer = Tokenizer.from_gguf({
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": order})
        start = time.process_time()
        assert tokenizer.decode(tokenizer.encode("a" * 200_000)) == "a" * 200_000
        assert time.process_time() - start < 5  # a quadratic way would take minutes


def test_merges_are_required(bpe_metadata: dict) -> None:
    with pytest.raises(GGUFError, match=r"tokenizer\.ggml\.merges is missing"):
        Tokenizer.from_gguf(put(bpe_metadata, "merges", None))


class Strings:
    """Strings in one buffer, as in a mapped file, with false offsets."""

    def __init__(self, offsets: list[int], lengths: list[int]) -> None:
        self.buffer = np.frombuffer(b"abcdef", np.uint8)
        self.offsets = np.array(offsets, np.int64)
        self.lengths = np.array(lengths, np.int64)


@pytest.mark.parametrize(("offsets", "lengths"), [
    ([0, 5], [3, 2]), ([7], [0]), ([-1], [2]), ([2], [-1]), ([2**62], [2**62]), ([0, 1], [1])])
def test_strings_outside_their_buffer(offsets: list[int], lengths: list[int]) -> None:
    lying = Strings(offsets, lengths)
    assert isinstance(lying, BufferedStrings)
    with pytest.raises(UnladenError, match=r"tokenizer\.ggml\.tokens"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "test", "tokenizer.ggml.tokens": lying})


def test_errors_name_the_file() -> None:
    with pytest.raises(GGUFError, match=r"somewhere\.gguf"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "gpt2"}, path="somewhere.gguf")
    assert Fields({}, "x").error("pre", "is odd").path == "x"


def test_random_metadata_never_crashes(rng: np.random.Generator, spm_metadata: dict,
                                       bpe_metadata: dict) -> None:
    odd = [None, 0, -1, "x", "", [], [""], ["a", "b"], [1], [0.5], True, [None], {}, 2**63, b"x",
           float("nan"), [float("nan")] * 273, [3] * 273, ["▁"] * 273, [2] * 273]
    n_built = 0
    kinds = [(spm_metadata, kind) for kind in ("llama", "t5", "bert", "plamo2", "rwkv")] + [
        (bpe_metadata, kind) for kind in ("gpt2", "hybriddna", "whitespace", "gemma4")]
    for base, kind in kinds:
        base = {**base, "tokenizer.ggml.model": kind}
        keys = [key.removeprefix("tokenizer.ggml.") for key in base] + [
            "add_space_prefix", "suppress_tokens", "fim_pre_token_id", "precompiled_charsmap",
            "normalizer.lowercase", "add_sep_token"]
        for _ in range(100):
            key = keys[int(rng.integers(len(keys)))]
            metadata = put(base, key, odd[int(rng.integers(len(odd)))])
            with contextlib.suppress(UnladenError):
                tokenizer = Tokenizer.from_gguf(metadata)
                tokenizer.decode(tokenizer.encode("hello ▁ <tool> é"), special=True)
                n_built += 1
    assert 0 < n_built < 100 * len(kinds)
