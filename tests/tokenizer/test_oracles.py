"""Ids of random text equal those of PyPI's tokenizers and sentencepiece, with vocabularies that
these packages learn here. ``UNLADEN_ORACLE_STRINGS`` is the number of strings (``make oracle``)."""

from __future__ import annotations

import io
import json
import math
import os
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unladen.tokenizer import StreamDecoder, Tokenizer

oracle = pytest.importorskip("tokenizers", reason="the oracle is PyPI's tokenizers")

N_STRINGS = int(os.environ.get("UNLADEN_ORACLE_STRINGS", "1000"))
N_LEARNT = 4000
Text = Callable[[np.random.Generator], str]
COMMON = """the of and a to in is you that it he was for on are as with his they I at be this have
from or one had by word but not what all were we when your can said there use an each which she do
how their if will up other about out many then them these so some her would make like him into
time has look two more write go see number no way could people"""


@pytest.fixture(scope="module")
def text_of(random_text: Text) -> Text:
    """Mixed text, half of it common words."""
    def make(rng: np.random.Generator) -> str:
        words = " ".join(rng.choice(COMMON.split(), rng.integers(0, 12)).tolist())
        mixed = random_text(rng)
        return [words, mixed, words + mixed, mixed + words][int(rng.integers(4))]
    return make


def learnt(texts: list[str]) -> list[str]:
    """``text`` with only its 500 most frequent characters: a unigram model needs a token for each.
    """
    common = {c for c, _ in Counter("".join(texts)).most_common(500)}
    return ["".join(c for c in text if c in common) for text in texts]


def metadata_of(model: str, tokens: list[str], types: list[int], scores: list[float],
                **more: object) -> dict[str, Any]:
    fields = {"model": model, "tokens": tokens, "token_type": types, "scores": scores, **more}
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items()}


def assert_streams(tokenizer: Tokenizer, ids: list[int]) -> None:
    stream = StreamDecoder(tokenizer, at_start=True)
    assert "".join([*map(stream.push, ids), stream.flush()]) == tokenizer.decode(ids)


def test_bpe(text_of: Text, rng: np.random.Generator) -> None:
    split = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    theirs = oracle.Tokenizer(oracle.models.BPE())
    theirs.pre_tokenizer = oracle.pre_tokenizers.Sequence([
        oracle.pre_tokenizers.Split(oracle.Regex(split), "isolated"),
        oracle.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    theirs.train_from_iterator((text_of(rng) for _ in range(N_LEARNT)), oracle.trainers.BpeTrainer(
        vocab_size=2000, show_progress=False,
        initial_alphabet=oracle.pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(theirs.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "dbrx",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]]})
    for text in (text_of(rng) for _ in range(N_STRINGS)):
        ids = ours.encode(text, special=False)
        assert ids == theirs.encode(text).ids, text
        assert ours.decode(ids) == text
        assert_streams(ours, ids)


@pytest.fixture(scope="module")
def old_text(text_of: Text) -> Text:
    """Text of characters of Unicode 3.2 whose category is still the same: the tables for BERT in
    tokenizers are those of Unicode 8, this package's are newer."""
    old = unicodedata.ucd_3_2_0

    def make(rng: np.random.Generator) -> str:
        return "".join(c for c in text_of(rng) if old.category(c) == unicodedata.category(c))
    return make


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, True), (False, False),
                                                          (True, False), (False, True)])
def test_wpm(old_text: Text, rng: np.random.Generator, lowercase: bool, strip_accents: bool
             ) -> None:
    theirs = oracle.Tokenizer(oracle.models.WordPiece(unk_token="[UNK]"))
    theirs.normalizer = oracle.normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents)
    theirs.pre_tokenizer = oracle.pre_tokenizers.BertPreTokenizer()
    theirs.decoder = oracle.decoders.WordPiece(cleanup=False)
    theirs.train_from_iterator(
        (old_text(rng) for _ in range(N_LEARNT)),
        oracle.trainers.WordPieceTrainer(vocab_size=1500, show_progress=False, limit_alphabet=700,
                                         special_tokens=["[UNK]", "[CLS]", "[SEP]"]))
    vocab = theirs.get_vocab()
    names = sorted(vocab, key=vocab.__getitem__)
    ours = Tokenizer.from_gguf({
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.token_type": [3] * 3 + [1] * (
            len(names) - 3),
        "tokenizer.ggml.tokens": names[:3] + [
            name[2:] if name.startswith("##") else "▁" + name for name in names[3:]],
        "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.cls_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 2, "tokenizer.ggml.normalizer.lowercase": lowercase,
        "tokenizer.ggml.normalizer.strip_accents": strip_accents})
    for text in (old_text(rng) for _ in range(N_STRINGS // 4)):
        ids = ours.encode(text, special=False)
        assert ids == [1, *theirs.encode(text).ids, 2], text
        known = [i for i in ids if i > 2]
        assert ours.decode(known) == theirs.decode(known), text
        assert ours.encode(ours.decode(known), special=False) == [
            1, *theirs.encode(theirs.decode(known)).ids, 2]
        assert_streams(ours, ids)


@pytest.mark.parametrize("byte_fallback", [False, True])
def test_ugm(text_of: Text, rng: np.random.Generator, byte_fallback: bool) -> None:
    """The unigram model without its prefix: Metaspace puts no second space before a space, but
    SentencePiece does."""
    trained = oracle.Tokenizer(oracle.models.Unigram())
    trained.pre_tokenizer = oracle.pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        learnt([text_of(rng) for _ in range(N_LEARNT)]), oracle.trainers.UnigramTrainer(
            vocab_size=1500, show_progress=False, unk_token="<unk>", special_tokens=["<unk>"]))
    pieces = [(text, float(np.float32(score)))  # as files have it
              for text, score in json.loads(trained.to_str())["model"]["vocab"]]
    marks = [f"<0x{b:02X}>" for b in range(256)] if byte_fallback else []
    theirs = oracle.Tokenizer(oracle.models.Unigram(
        pieces + [(mark, 0.0) for mark in marks], 0, byte_fallback))
    theirs.pre_tokenizer = oracle.pre_tokenizers.Metaspace()
    ours = Tokenizer.from_gguf(metadata_of(
        "t5", [text for text, _ in pieces] + marks,
        [2] + [1] * (len(pieces) - 1) + [6] * len(marks),
        [score for _, score in pieces] + [0.0] * len(marks), unknown_token_id=0,
        add_space_prefix=True, add_eos_token=False))
    for text in (text_of(rng).lstrip(" ") for _ in range(N_STRINGS // 2)):
        ids = ours.encode(text, special=False)
        assert ids == theirs.encode(text).ids, text
        if byte_fallback:
            assert ours.decode(ids) == text
        assert_streams(ours, ids)


def spm_metadata(model: Any, kind: str, **more: object) -> dict[str, Any]:
    """The metadata that a converter writes for a SentencePiece model."""
    ids = range(model.vocab_size())
    checks = {2: model.is_unknown, 3: model.is_control, 5: model.is_unused, 6: model.is_byte}
    types = [next((type_ for type_, holds in checks.items() if holds(i)), 1) for i in ids]
    return metadata_of(kind, [model.id_to_piece(i) for i in ids], types,
                       [model.get_score(i) for i in ids], bos_token_id=model.bos_id(),
                       eos_token_id=model.eos_id(), unknown_token_id=model.unk_id(),
                       add_eos_token=False, **more)


def train_spm(text_of: Text, rng: np.random.Generator, **options: object) -> Any:
    sentencepiece = pytest.importorskip("sentencepiece", reason="the oracle is sentencepiece")
    model = io.BytesIO()
    texts = [text.replace("\0", "") for text in learnt([text_of(rng) for _ in range(N_LEARNT)])]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, minloglevel=2, num_threads=2,
        hard_vocab_limit=False, **options)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@pytest.mark.parametrize("space_prefix", [True, False])
def test_spm(text_of: Text, rng: np.random.Generator, space_prefix: bool) -> None:
    theirs = train_spm(text_of, rng, model_type="bpe", vocab_size=2000, byte_fallback=True,
                       normalization_rule_name="identity", remove_extra_whitespaces=False,
                       add_dummy_prefix=space_prefix)
    ours = Tokenizer.from_gguf(spm_metadata(theirs, "llama", add_space_prefix=space_prefix))
    for text in (text_of(rng) for _ in range(N_STRINGS // 2)):
        ids = ours.encode(text, add_bos=False, special=False)
        assert ids == theirs.encode(text), text
        assert ours.decode(ids) == text == theirs.decode(ids)
        assert_streams(ours, ids)


def charsmap_of(model: Any) -> bytes:
    """``normalizer_spec.precompiled_charsmap`` of a serialized model: field 2 of field 3."""
    def field(message: bytes, wanted: int) -> bytes:
        at, value = 0, b""

        def number() -> int:
            nonlocal at
            n = shift = 0
            while True:
                n |= (message[at] & 127) << shift
                at, shift = at + 1, shift + 7
                if message[at - 1] < 128:
                    return n
        while at < len(message):
            tag, fixed = number(), {1: 8, 5: 4}
            if tag & 7 == 0:
                number()
                continue
            size = fixed.get(tag & 7) or number()
            if tag >> 3 == wanted:
                value = message[at:at + size]
            at += size
        return value
    return field(field(model.serialized_model_proto(), 3), 2)


def assert_as_likely(ours: Tokenizer, theirs: Any, ids: list[int], expected: list[int]) -> None:
    """``ids`` spell what ``expected`` does and have the same float64 score within the rounding of
    SentencePiece's float32 sums, which decides between equal scores there."""
    mine, others = ([theirs.get_score(i) for i in row] for row in (ids, expected))
    text = ours.decode(expected, at_start=False)
    assert ours.decode(ids, at_start=False) == text
    bound = 2.0 ** -23 * len(others) * sum(map(abs, others))
    assert abs(math.fsum(mine) - math.fsum(others)) <= bound, text


@pytest.mark.parametrize(("rule", "merge", "prefix"), [
    ("nmt_nfkc", True, True), ("nmt_nfkc_cf", True, False), ("nfkc", False, True),
    ("identity", False, False)])
def test_ugm_with_its_normalizer(text_of: Text, rng: np.random.Generator, rule: str, merge: bool,
                                 prefix: bool) -> None:
    """Ids equal SentencePiece's, or are as likely."""
    theirs = train_spm(text_of, rng, model_type="unigram", vocab_size=1500,
                       normalization_rule_name=rule, remove_extra_whitespaces=merge,
                       add_dummy_prefix=prefix)
    ours = Tokenizer.from_gguf(spm_metadata(
        theirs, "t5", add_space_prefix=prefix, remove_extra_whitespaces=merge,
        precompiled_charsmap=np.frombuffer(charsmap_of(theirs), np.uint8)))
    n_ties = 0
    for text in (text_of(rng) for _ in range(N_STRINGS // 4)):
        ids, expected = ours.encode(text, special=False), theirs.encode(text)
        if ids != expected:
            n_ties += 1
            assert_as_likely(ours, theirs, ids, expected)
        assert_streams(ours, ids)
    print(f"{n_ties} of {N_STRINGS // 4} strings have several best ways")
