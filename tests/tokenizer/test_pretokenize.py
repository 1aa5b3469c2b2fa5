"""Every named pre-tokenizer equals Oniguruma, which the tokenizers package uses."""

from __future__ import annotations

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
    "before_thirds": r"(?=(\d{3})+(?!\d))",
    "digits_apart": r"\d{1,3}(?=(?:\d{3})*\b)", "apart_thirds": "(?!)",
}
"""The expressions of the steps that have names; the last two are one expression together."""
FAMILIES = {pre.steps: name for name, pre in sorted(pre_tokenizers().items()) if not pre.raw}
N_STRINGS = 300

MORE_PIECES = [
    "12345", "1234567890", "1234a", "12½345", "1_000", "4096 ",
    "\uff15\uff16\uff17\uff18", "camelCase", "HTTPServer", "ÉCOLE", "ǅ", "漢字かな",
    "カナ", "々〇", "ㄅㄆ", "ㄱㄴ", "、。", "「」", "…", "\u2013",
    "IMGIMGABCDZ", "<sentinel:12>",
    " \n", "\n ", "\t\t", "    ", " " * 17, "#tag", "/path//", ":/\n", "can't",
    "CAN'T", "a'S", "e\u0301a\u0308", "\u0301", "กขค", "ไทย", "မြန်", "ខ្មែរ", "(x|y).", "?!\n\n",
]


def expressions(name: str) -> list[str]:
    return [WRITTEN_OUT.get(step, step) for step in pre_tokenizers()[name].steps]


def text_of(rng: np.random.Generator, random_text: Callable) -> str:
    more = [MORE_PIECES[int(i)] for i in rng.integers(len(MORE_PIECES), size=rng.integers(6))]
    return "".join(rng.permutation([random_text(rng), *more]).tolist())


@pytest.fixture(scope="module")
def pairs(alphabet: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens and merges by which every pair of bytes within a word merges: ids tell the cuts."""
    merges = [(left, right) for left in alphabet for right in alphabet]
    return [*alphabet, *(left + right for left, right in merges)], merges


@pytest.mark.parametrize("name", FAMILIES.values())
def test_words_are_cut_as_published(pairs: tuple, random_text: Callable,
                                    rng: np.random.Generator, name: str) -> None:
    tokens, merges = pairs
    theirs = oracle.Tokenizer(oracle.models.BPE(
        vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    splits = [oracle.pre_tokenizers.Split(oracle.Regex(e), "isolated") for e in expressions(name)]
    theirs.pre_tokenizer = oracle.pre_tokenizers.Sequence(
        [*splits, oracle.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges]})
    for text in (text_of(rng, random_text) for _ in range(N_STRINGS)):
        assert ours.encode(text, add_bos=False, special=False) == theirs.encode(text).ids, text


@pytest.mark.parametrize("unit", ["a", "A", " ", "\n ", "1", "'", "中", "é\u0301", "<sentinel:1"])
def test_long_texts_of_one_kind(bpe_metadata: dict, unit: str) -> None:
    text = unit * (150_000 // len(unit)) + "x"
    for name in FAMILIES.values():  # a quadratic way would take minutes
        tokenizer = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.pre": name})
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_name_is_there() -> None:
    assert len(pre_tokenizers()) == 91
    flags = {name for name, pre in pre_tokenizers().items() if pre.ignore_merges}
    assert {"llama-bpe", "glm4", "tekken", "youtu", "minicpm5"} < flags and "gpt-2" not in flags
    assert not pre_tokenizers()["glm4"].bos and pre_tokenizers()["chameleon"].add_bos
