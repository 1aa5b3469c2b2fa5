"""A text's own tokens, and those of a text that continues another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenizer.test_oracles import (
    assert_as_likely,
    spm_metadata,
    text_of,  # noqa: F401 - a fixture
    train_spm,
)
from tokenizer.test_published import SEPARATOR, VOCABS
from unladen.errors import InvalidArgument
from unladen.tokenizer import JsonTokenizer, Tokenizer

Text = Callable[[np.random.Generator], str]


@pytest.mark.parametrize("name", VOCABS)
def test_a_texts_own_tokens_and_nothing_else(shared: Path, published_tokenizer: Callable, name: str
                                             ) -> None:
    tokenizer: Tokenizer = published_tokenizer(name)
    given = shared / f"vocabs/ggml-vocab-{name}.gguf.inp"
    texts = given.read_bytes().decode().split(SEPARATOR)
    lines = given.with_suffix(".out").read_text().split("\n")[:len(texts)]
    framed = tokenizer.encode("a", special=False)
    before, end = tokenizer.bos_id if "BOS" in tokenizer.adds else None, framed[-1]
    for text, line in zip(texts, lines, strict=True):
        own = [int(n) for n in line.split()]
        assert tokenizer.encode(text, add_special=False, special=False) == own
        assert tokenizer.encode(text, add_special=False, add_bos=True, special=False) == (
            own if tokenizer.bos_id is None else [tokenizer.bos_id, *own])
        whole = tokenizer.encode(text, special=False)
        assert whole == tokenizer.encode(text, add_special=True, special=False)
        assert whole == [*([before] if before is not None else []), *own,
                         *([end] if len(tokenizer.adds) == 1 + (before is not None) else [])]
    assert name != "bert-bge" or tokenizer.adds == ("BOS", "SEP")


@pytest.mark.parametrize("name", [name for name in VOCABS if name != "bert-bge"])
def test_words_go_on(published_tokenizer: Callable, rng: np.random.Generator, name: str) -> None:
    tokenizer: Tokenizer = published_tokenizer(name)
    words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "it"]
    for _ in range(50):
        text = [str(w) for w in rng.choice(words, int(rng.integers(2, 9)))]
        first, rest = text[0], [f" {w}" for w in text[1:]]
        ids = tokenizer.encode(first, add_eos=False)
        for word in rest:
            ids += tokenizer.encode(word, continues=True)
        assert ids == tokenizer.encode(" ".join(text), add_eos=False)
        assert ids == tokenizer.encode(first, add_eos=False) + tokenizer.encode(
            "".join(rest), add_special=False, continues=True)


def test_a_part_of_a_word_gets_no_space(published_tokenizer: Callable) -> None:
    tokenizer: Tokenizer = published_tokenizer("llama-spm")
    rest = tokenizer.encode("ing", continues=True)
    assert tokenizer.decode(rest, at_start=False) == "ing"
    assert tokenizer.decode(tokenizer.encode("ing", add_special=False), at_start=False) == " ing"
    assert tokenizer.encode("ing", continues=True, add_special=True) == [tokenizer.bos_id, *rest]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_as_sentencepiece_without_its_prefix(text_of: Text, rng: np.random.Generator,  # noqa: F811
                                             kind: str) -> None:
    options: dict[str, Any] = {"byte_fallback": True} if kind == "bpe" else {}
    theirs = train_spm(text_of, rng, model_type=kind, vocab_size=1000, add_dummy_prefix=False,
                       normalization_rule_name="identity", remove_extra_whitespaces=False,
                       **options)
    ours = Tokenizer.from_gguf(spm_metadata(theirs, "llama" if kind == "bpe" else "t5",
                                            add_space_prefix=True))
    n_differ = 0
    for text in (text_of(rng) for _ in range(200)):
        ids = ours.encode(text, continues=True, special=False)
        expected = theirs.encode(text)
        if kind == "unigram" and ids != expected:  # "aaa" may be "a" and "aa" in either order
            assert_as_likely(ours, theirs, ids, expected)
        else:
            assert ids == expected, text
        n_differ += ids != ours.encode(text, add_special=False, special=False)
    assert n_differ > 100


def test_where_spaces_merge_one_stays(text_of: Text,  # noqa: F811
                                      rng: np.random.Generator) -> None:
    theirs = train_spm(text_of, rng, model_type="unigram", vocab_size=1000,
                       normalization_rule_name="identity", remove_extra_whitespaces=True,
                       add_dummy_prefix=True)
    ours = Tokenizer.from_gguf(spm_metadata(theirs, "t5", add_space_prefix=True,
                                            remove_extra_whitespaces=True))
    for _ in range(100):
        a, b = (str(w) for w in rng.choice(["the", "of", "and", "you", "said", "their"], 2))
        whole = theirs.encode(f"{a} {b}")
        assert ours.encode(a, add_special=False) + ours.encode(f"  {b}", continues=True) == whole
        assert ours.decode(ours.encode(b, continues=True), at_start=False) == b


@pytest.mark.parametrize("way", ["Prepend", "Metaspace"])
def test_a_tokenizer_json(way: str, tmp_path: Path) -> None:
    hf = pytest.importorskip("tokenizers", reason="the extra hf-tokenizer isn't installed")
    pieces = ["<unk>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"]
    merges = [("\u2581", "a"), ("a", "b"), ("\u2581", "ab")]

    def made(prefix: bool) -> Any:
        tokenizer = hf.Tokenizer(hf.models.BPE({t: i for i, t in enumerate(pieces)}, merges,
                                               unk_token="<unk>"))
        if way == "Prepend":
            steps = [hf.normalizers.Prepend("\u2581")] if prefix else []
            tokenizer.normalizer = hf.normalizers.Sequence(
                [*steps, hf.normalizers.Replace(" ", "\u2581")])
        else:
            tokenizer.pre_tokenizer = hf.pre_tokenizers.Metaspace(
                prepend_scheme="always" if prefix else "never", split=False)
        tokenizer.decoder = hf.decoders.Metaspace()
        return tokenizer
    made(True).save(str(tmp_path / "tokenizer.json"))
    ours, bare = JsonTokenizer(tmp_path / "tokenizer.json", {}), made(False)
    for text in ("ab", "ab ab", " ab", "b", "", "aab  b"):
        assert ours.encode(text, continues=True) == bare.encode(text).ids, text
        assert ours.encode(text, add_special=False) == made(True).encode(text).ids, text


@pytest.mark.parametrize(("names", "said"), [
    ({"text": b"a"}, r"text must be.*bytes.decode\(\)"), ({"text": None}, "text must be"),
    ({"add_special": 1}, "add_special must be"), ({"add_bos": "yes"}, "add_bos must be"),
    ({"add_eos": 0}, "add_eos must be"), ({"continues": None}, "continues must be"),
    ({"special": []}, "special must be")])
def test_wrong_arguments(bpe_metadata: dict[str, Any], names: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        Tokenizer.from_gguf(bpe_metadata).encode(**{"text": "a", **names})
