"""Unigram models: special cases and hostile tables. See test_oracles.py for ids."""

from __future__ import annotations

import itertools
import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unladen.errors import GGUFError, InvalidArgument
from unladen.tokenizer import Tokenizer

TOKENS = {"<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -2.0, "a": -3.0, "b": -3.5, "ab": -4.0,
          "▁ab": -5.0, "aab": -9.0, "é": -6.0}


def metadata(**more: object) -> dict[str, object]:
    fields = {"model": "t5", "tokens": list(TOKENS), "scores": list(TOKENS.values()),
              "token_type": [3, 3, 2] + [1] * (len(TOKENS) - 3), "add_space_prefix": True,
              "remove_extra_whitespaces": True, **more}
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}


def pieces(text: str, **more: object) -> list[str]:
    made = Tokenizer.from_gguf(metadata(**more))
    return [made.token_text(i) for i in made.encode(text, add_eos=False)]


def test_the_likeliest_tokens(rng: np.random.Generator) -> None:
    """The tokens are the best of all ways to cut a short text."""
    made = Tokenizer.from_gguf(metadata(remove_extra_whitespaces=False, add_space_prefix=False))
    words = {word.replace("▁", " "): score for word, score in list(TOKENS.items())[3:]}

    def ways(text: str) -> list[list[str]]:
        return [[]] if not text else [
            [word, *rest] for word in words if text.startswith(word)
            for rest in ways(text[len(word):])]
    for n in range(1, 7):
        for letters in itertools.product("ab ", repeat=n):
            text = "".join(letters)
            best = max(sum(words[word] for word in way) for way in ways(text))
            ids = made.encode(text, add_eos=False)
            assert sum(TOKENS[made.token_text(i)] for i in ids) == pytest.approx(best, abs=1e-9)
            assert made.decode(ids) == text


def test_spaces_and_unknown_characters() -> None:
    assert pieces("  ab   ab ") == ["▁ab", "▁ab"]
    assert pieces("ab", add_space_prefix=False) == ["ab"]
    assert pieces(" ", remove_extra_whitespaces=False) == ["▁", "▁"]
    assert pieces("   ") == pieces("") == []
    assert pieces("xyzéxx") == ["▁", "<unk>", "é", "<unk>"]
    assert Tokenizer.from_gguf(metadata()).encode("ab") == [7, 1]  # EOS by default
    types = [3, 3, 3] + [1] * (len(TOKENS) - 3)
    made = Tokenizer.from_gguf(metadata(token_type=types, tokens=["<pad>", "</s>", "x", *list(
        TOKENS)[3:]], unknown_token_id=1))
    with pytest.raises(InvalidArgument, match="no token for 'q'"):
        made.encode("aq")


def test_unknown_words_together_are_one_token() -> None:
    without_space = {key: value for key, value in TOKENS.items() if key != "▁"}
    fields = {"tokens": list(without_space), "scores": list(without_space.values()),
              "token_type": [3, 3, 2] + [1] * (len(without_space) - 3)}
    assert pieces("x y z a", **fields) == ["<unk>", "a"]


@pytest.mark.parametrize("table", [
    b"\0", b"\0\0\0\0", b"\0\0\0\0\0", struct.pack("<I", 1024) + bytes(1024),
    struct.pack("<I", 1023) + bytes(2000), struct.pack("<I", 1024) + bytes(1024) + b"x",
    struct.pack("<I", 2**32 - 1) + bytes(2000),
    struct.pack("<I", 1024) + b"\xff" * 1024 + b"\0",
    struct.pack("<II", 1024, 2**31 - 1) + bytes(1020) + b"\0",
    struct.pack("<II", 1024, 2**31) + bytes(1020) + b"\0",
    struct.pack("<I", 1024) + bytes(1024) + b"x" * 2000 + b"\0"])
def test_broken_tables_are_named(table: bytes) -> None:
    with pytest.raises(GGUFError, match=r"tokenizer\.ggml\.precompiled_charsmap"):
        Tokenizer.from_gguf(metadata(precompiled_charsmap=np.frombuffer(table, np.uint8)))


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), max_size=200), st.text(max_size=40), st.binary())
def test_any_table_is_refused_or_harmless(units: list[int], text: str, texts: bytes) -> None:
    words = [unit & 0x800003FF for unit in units] + [0] * (256 - len(units))
    table = struct.pack("<257I", 1024, *words) + texts + b"\0"
    try:
        made = Tokenizer.from_gguf(metadata(precompiled_charsmap=list(table)))
    except GGUFError:
        return
    made.encode(text)


@pytest.mark.parametrize(("key", "value", "problem"), [
    ("scores", None, "is missing"), ("scores", [0.0], "has 1 values"),
    ("scores", [0.0] * 9 + [float("nan")], "has nan for token 9"),
    ("scores", [0.0] * 9 + [float("-inf")], "has -inf for token 9"),
    ("precompiled_charsmap", [1, 256], "isn't an array of bytes"),
    ("precompiled_charsmap", [0.5], "kind"), ("precompiled_charsmap", "abc", "array of numbers"),
    ("remove_extra_whitespaces", 2, "isn't a boolean")])
def test_faults_are_named(key: str, value: object, problem: str) -> None:
    with pytest.raises(GGUFError, match=rf"tokenizer\.ggml\.{key} .*{problem}"):
        Tokenizer.from_gguf(metadata(**{key: value}))


@pytest.mark.parametrize("unit", ["a", " ", "\u0301", "ab", "x", "é"])
def test_long_texts_of_one_kind(unit: str) -> None:
    made = Tokenizer.from_gguf(metadata())
    start = time.process_time()
    made.encode(unit * (300_000 // len(unit)))
    assert time.process_time() - start < 5  # a quadratic way would take minutes


def test_scores_whose_sum_overflows() -> None:
    """A word all of whose ways have the score minus infinity is still encoded."""
    low = -3.3e38
    made = Tokenizer.from_gguf(metadata(
        tokens=["<pad>", "</s>", "<unk>", "▁▁▁▁", "▁"], scores=[0.0, 0.0, 0.0, 0.0, low],
        token_type=[3, 3, 2, 4, 1], remove_extra_whitespaces=False, add_space_prefix=False))
    assert made.decode(made.encode("    ", add_eos=False)) == "    "
