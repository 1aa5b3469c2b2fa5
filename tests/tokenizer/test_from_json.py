"""A tokenizer.json in place of a file's own tokenizer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.errors import InvalidArgument, ModelNotFound, UnsupportedModel
from unladen.tokenizer import JsonTokenizer, StreamDecoder, Tokenizer

hf = pytest.importorskip("tokenizers", reason="the extra hf-tokenizer isn't installed")


@pytest.fixture
def byte_level(bpe_metadata: dict[str, Any], tmp_path: Path) -> Path:
    """A tokenizer.json that says the same as ``bpe_metadata``, and adds BOS."""
    tokens: list[str] = bpe_metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in bpe_metadata["tokenizer.ggml.merges"]]
    made = hf.Tokenizer(hf.models.BPE({t: i for i, t in enumerate(tokens[:-5])}, merges))
    made.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = hf.decoders.ByteLevel()
    for text, special in zip(tokens[-5:], [True, True, True, False, False], strict=True):
        made.add_special_tokens([text]) if special else made.add_tokens(
            [hf.AddedToken(text, normalized=False)])
    made.post_processor = hf.processors.TemplateProcessing(
        "<|begin|> $A", special_tokens=[("<|begin|>", len(tokens) - 5)])
    made.enable_truncation(4)
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_same_as_the_files_own(bpe_metadata: dict[str, Any], byte_level: Path, caplog: Any,
                               random_text: Callable, rng: np.random.Generator) -> None:
    own = Tokenizer.from_gguf(bpe_metadata)
    with caplog.at_level(logging.WARNING, "unladen"):
        ours = JsonTokenizer(byte_level, bpe_metadata)
    assert not caplog.records
    assert (ours.n_vocab, ours.bos_id, ours.eos_id, ours.eog_ids, ours.add_bos) == (
        own.n_vocab, own.bos_id, own.eos_id, own.eog_ids, True)
    for special in (True, False):
        for _ in range(200):
            text = "<tool>" + random_text(rng) + "<|endoftext|>"
            ids = ours.encode(text, special=special, add_bos=False)
            assert ids == own.encode(text, special=special, add_bos=False)
            assert ours.decode(ids, special=True) == text
            stream = StreamDecoder(ours)
            assert "".join([*map(stream.push, ids), stream.flush()]) == ours.decode(ids)
    assert ours.encode("hello") == [own.bos_id, *own.encode("hello")]
    assert ours.encode("<|begin|>hello") == ours.encode("hello")


def test_plain_ranges(bpe_metadata: dict[str, Any], byte_level: Path, random_text: Callable,
                      rng: np.random.Generator) -> None:
    """Names of control tokens that overlap a range are text, as for the file's own tokenizer."""
    own, ours = Tokenizer.from_gguf(bpe_metadata), JsonTokenizer(byte_level, bpe_metadata)
    names = list(ours.control_texts)
    assert len(names) == 3
    n_found = 0
    for _ in range(200):
        text = "".join(random_text(rng) + str(rng.choice(names)) for _ in range(4)) + "<tool>"
        cuts = sorted(rng.integers(0, len(text) + 1, 2 * int(rng.integers(1, 5))).tolist())
        plain = list(zip(cuts[::2], cuts[1::2], strict=True))
        ids = ours.encode(text, add_bos=False, plain=plain)
        assert ids == own.encode(text, add_bos=False, plain=plain), (text, plain)
        n_found += len({*ours.control_texts.values()} & {*ids})
    assert n_found > 0


def test_another_vocabulary_is_noticed(bpe_metadata: dict[str, Any], byte_level: Path,
                                       caplog: pytest.LogCaptureFixture) -> None:
    tokens = bpe_metadata["tokenizer.ggml.tokens"]
    tokens[3], tokens[4] = tokens[4], tokens[3]
    with caplog.at_level(logging.WARNING, "unladen"):
        JsonTokenizer(byte_level, bpe_metadata)
    assert f"2 of {len(tokens)} tokens differ" in caplog.text
    for key in ("tokens", "token_type"):
        bpe_metadata[f"tokenizer.ggml.{key}"].pop()
    with pytest.raises(InvalidArgument, match=f"{len(tokens) + 1} tokens, the model {len(tokens)}"):
        JsonTokenizer(byte_level, bpe_metadata)
    assert JsonTokenizer(byte_level, {}).n_vocab == len(tokens) + 1  # a file without a tokenizer


def test_word_pieces(tmp_path: Path) -> None:
    words = ["[UNK]", "[CLS]", "[SEP]", "hello", "un", "##able", ","]
    made = hf.Tokenizer(hf.models.WordPiece({w: i for i, w in enumerate(words)},
                                               unk_token="[UNK]"))
    made.normalizer = hf.normalizers.BertNormalizer()
    made.pre_tokenizer = hf.pre_tokenizers.BertPreTokenizer()
    made.decoder = hf.decoders.WordPiece()
    made.add_special_tokens(words[:3])
    made.post_processor = hf.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    made.save(str(tmp_path / "t.json"))
    ours = JsonTokenizer(tmp_path / "t.json", {})
    assert ours.encode("Hello, unable") == [1, 3, 6, 4, 5, 2]
    assert ours.decode([1, 3, 6, 4, 5, 2]) == "hello , unable"
    assert ours.encode("hello", add_bos=False, add_eos=False) == [3]


@pytest.mark.parametrize("scheme", ["always", "never"])
def test_sentence_pieces(tmp_path: Path, scheme: str) -> None:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁hello", -3.0), ("hello", -4.0)] + [
        (f"<0x{b:02X}>", 0.0) for b in range(256)]
    made = hf.Tokenizer(hf.models.Unigram(pieces, 0, byte_fallback=True))
    made.pre_tokenizer = hf.pre_tokenizers.Metaspace(prepend_scheme=scheme)
    made.decoder = hf.decoders.Sequence([
        hf.decoders.ByteFallback(), hf.decoders.Metaspace(prepend_scheme=scheme)])
    made.save(str(tmp_path / "t.json"))
    ours = JsonTokenizer(tmp_path / "t.json", {})
    ids = ours.encode("hello hello 🚀")
    assert ours.token_text(ids[0]) == ("▁hello" if scheme == "always" else "hello")
    assert ours.decode(ids) == "hello hello 🚀"
    assert ours.decode(ids[1:2], at_start=False) == " hello"


def test_faults(tmp_path: Path, byte_level: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelNotFound, match=r"nothing\.json"):
        JsonTokenizer(tmp_path / "nothing.json", {})
    for content in (b"", b"{}", b"[]", b"\xff", b'{"model": 3}', b"x" * 1000):
        (tmp_path / "odd.json").write_bytes(content)
        with pytest.raises(InvalidArgument, match=r"odd\.json isn't a tokenizer"):
            JsonTokenizer(tmp_path / "odd.json", {})
    made = hf.Tokenizer.from_file(str(byte_level))
    made.decoder = hf.decoders.CTC()
    made.save(str(tmp_path / "ctc.json"))
    with pytest.raises(UnsupportedModel, match="decoder of unknown form"):
        JsonTokenizer(tmp_path / "ctc.json", {})
    made = hf.Tokenizer.from_file(str(byte_level))
    made.post_processor = hf.processors.TemplateProcessing(
        "a b $A", special_tokens=[("a", 64), ("b", 65)])
    made.save(str(tmp_path / "two.json"))
    with pytest.raises(UnsupportedModel, match="more than one token before"):
        JsonTokenizer(tmp_path / "two.json", {})
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InvalidArgument, match=r'isn\'t installed.*unladen\[hf-tokenizer\]'):
        JsonTokenizer(byte_level, {})
