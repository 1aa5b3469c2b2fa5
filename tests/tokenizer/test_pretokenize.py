"""Every named pre-tokenizer against Oniguruma, which the tokenizers package uses."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from unladen.tokenizer import Tokenizer
from unladen.tokenizer.pretokenize import pre_tokenizers

oracle = pytest.importorskip("tokenizers", reason="the oracle is PyPI's tokenizers")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WRITTEN_OUT = {
    "gpt2": GPT2, "llama3": CL100K % "{1,3}", "qwen2": CL100K % "", "number": r"\p{N}",
    "numbers": r"\p{N}+", "punctuation": r"[\p{P}\$\+<=>\^~\|]+", "digits3": "[0-9][0-9][0-9]",
    "number_thirds": r"\p{N}{1,3}(?=(\p{N}{3})*(?!\p{N}))", "trailing": r"\s+$",
    "digit_thirds": r"\d{1,3}(?=(\d{3})*(?!\d))",
    "digits_apart": r"\d{1,3}(?=(?:\d{3})*\b)", "apart_thirds": "(?!)",
}
"""What the steps that have names stand for; the two last are one expression together."""
FAMILIES = {pre.steps: name for name, pre in sorted(pre_tokenizers().items()) if not pre.raw}
SUPERBPE = [r"\p{N}+", r"(?=(\d{3})+(?!\d))"]
"""Published so: it cuts between digits, matching nothing."""

MORE_PIECES = [
    "12345", "1234567890", "1234a", "12½345", "1_000", "4096 ", "５６７８", "camelCase", "HTTPServer",
    "ÉCOLE", "ǅ", "漢字かな", "カナ", "々〇", "ㄅㄆ", "ㄱㄴ", "、。", "「」", "…", "–", "IMGIMGABCDZ",
    "<sentinel:12>", " \n", "\n ", "\t\t", "    ", " " * 17, "#tag", "/path//", ":/\n", "can't",
    "CAN'T", "a'S", "e\u0301a\u0308", "\u0301", "กขค", "ไทย", "မြန်", "ខ្មែរ", "(x|y).", "?!\n\n",
]


def expressions(name: str) -> list[str]:
    if name == "superbpe":
        return SUPERBPE
    return [WRITTEN_OUT.get(step, step) for step in pre_tokenizers()[name].steps]


def text_of(rng: np.random.Generator, random_text: Callable) -> str:
    more = [MORE_PIECES[int(i)] for i in rng.integers(len(MORE_PIECES), size=rng.integers(6))]
    return "".join(rng.permutation([random_text(rng), *more]).tolist())


@pytest.fixture
def cutter(alphabet: list[str], bpe_metadata: dict) -> Callable[[str], Callable[[str], list[str]]]:
    """Makes, of a pre-tokenizer's name, a function that cuts text into words.

    Ids tell where the cuts are: every pair of bytes of a word that holds no cut would merge, so
    the words are seen as what merges into one, by a vocabulary of two-byte tokens.
    """
    pairs = [left + right for left in alphabet for right in alphabet]
    merges = [f"{left} {right}" for left in alphabet for right in alphabet]

    def make(name: str) -> Callable[[str], list[str]]:
        tokenizer = Tokenizer.from_gguf({
            "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
            "tokenizer.ggml.tokens": [*alphabet, *pairs], "tokenizer.ggml.merges": merges})
        return lambda text: [tokenizer.token_text(i)
                             for i in tokenizer.encode(text, add_bos=False, special=False)]
    return make


@pytest.mark.parametrize("name", FAMILIES.values())
def test_words_are_cut_as_published(cutter: Callable, random_text: Callable, alphabet: list[str],
                                    rng: np.random.Generator, name: str) -> None:
    vocab = {token: i for i, token in enumerate(
        [*alphabet, *(left + right for left in alphabet for right in alphabet)])}
    theirs = oracle.Tokenizer(oracle.models.BPE(
        vocab=vocab, merges=[(left, right) for left in alphabet for right in alphabet]))
    splits = [oracle.pre_tokenizers.Split(oracle.Regex(e), "isolated") for e in expressions(name)]
    theirs.pre_tokenizer = oracle.pre_tokenizers.Sequence(
        [*splits, oracle.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    cut = cutter(name)
    for text in (text_of(rng, random_text) for _ in range(300)):
        assert cut(text) == theirs.encode(text).tokens, text
