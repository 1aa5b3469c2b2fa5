"""WordPiece: normalization and special cases. See test_oracles.py for ids."""

from __future__ import annotations

import time

import pytest

from unladen.errors import InvalidArgument
from unladen.tokenizer import Tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁un", "afford", "able", "▁,", "▁!",
          "▁中", "▁a", "b", "▁strasse", "▁x", "x"]


def tokenizer(**more: object) -> Tokenizer:
    fields = {"model": "bert", "tokens": TOKENS, "token_type": [3, 2, 3, 3] + [1] * (
        len(TOKENS) - 4), "unknown_token_id": 1, "cls_token_id": 2, "seperator_token_id": 3, **more}
    return Tokenizer.from_gguf({f"tokenizer.ggml.{key}": value for key, value in fields.items()})


def pieces(text: str, **more: object) -> list[str]:
    made = tokenizer(**more)
    return [made.token_text(i) for i in made.encode(text)][1:-1]


@pytest.mark.parametrize(("text", "expected"), [
    ("", []), ("HÉLLO", ["▁hello"]), ("unaffordable", ["▁un", "afford", "able"]),
    ("hello,hello!", ["▁hello", "▁,", "▁hello", "▁!"]), ("a中b", ["▁a", "▁中", "[UNK]"]),
    ("ab\0\u200bb", ["▁a", "b", "b"]), ("a\u0301\u0323b", ["▁a", "b"]), ("unhello", ["[UNK]"]),
    ("a\tb\u00a0\u3000a\n", ["▁a", "[UNK]", "▁a"]), ("x" * 100, ["▁x"] + ["x"] * 99),
    ("x" * 101, ["[UNK]"]), ("a[PAD]", ["▁a", "[PAD]"])])
def test_words(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_flags() -> None:
    assert pieces("Hello", **{"normalizer.lowercase": False}) == ["[UNK]"]
    assert pieces("héllo", **{"normalizer.lowercase": False}) == ["[UNK]"]  # accents follow case
    assert pieces("héllo", **{"normalizer.lowercase": False, "normalizer.strip_accents": True}
                  ) == ["▁hello"]
    made = tokenizer()
    assert made.adds == ("BOS", "SEP") and made.clean_spaces
    assert made.encode("a") == [2, 11, 3]
    assert made.encode("a", add_bos=False, add_eos=False) == [11]
    assert made.encode("[CLS]a[SEP]") == [2, 11, 3]  # no second ones
    assert tokenizer(add_bos_token=False, add_sep_token=False).encode("a") == [11]


def test_decoding() -> None:
    made = tokenizer()
    ids = made.encode("hello, unaffordable!")
    assert made.decode(ids) == "hello , unaffordable !"
    assert made.decode(ids, clean_spaces=True) == "hello, unaffordable!"
    assert made.decode(ids[3:], at_start=False) == " unaffordable !"


def test_words_without_tokens() -> None:
    fields = {"model": "bert", "tokens": ["▁a"]}
    made = Tokenizer.from_gguf({f"tokenizer.ggml.{key}": v for key, v in fields.items()})
    with pytest.raises(InvalidArgument, match="no token for 'b'"):
        made.encode("a b")


@pytest.mark.parametrize("unit", ["x", " ", "\u0301", "e\u0301", "!", "中", "\U0001d16d\u0323"])
def test_long_texts_of_one_kind(unit: str) -> None:
    start = time.process_time()
    tokenizer().encode(unit * (300_000 // len(unit)))
    assert time.process_time() - start < 5  # a quadratic way would take minutes
