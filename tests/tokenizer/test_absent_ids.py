"""A key whose id has no token counts as missing; one warning says so."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unladen.tokenizer import Tokenizer
from unladen.tokenizer.special import OLD_KEYS, TOKEN_ID_KEYS

Metadata = dict[str, Any]
KINDS = ("bert-bge", "gpt-2", "llama-spm", "phi-3", "starcoder")
KEYS = (*TOKEN_ID_KEYS.values(), *OLD_KEYS.values())


def wrong(n_vocab: int) -> list[object]:
    return [2**32 - 1, -1, n_vocab, n_vocab + 1, 2**64 - 1, 2.0, float("nan"), "2", True, False,
            [2], np.int32(-1)]


def same(a: Tokenizer, b: Tokenizer) -> bool:
    text = "Hello world</s>[SEP]<|endoftext|>"
    return (a.token_ids == b.token_ids and a.eog_ids == b.eog_ids
            and a.encode(text) == b.encode(text))


@pytest.fixture(params=[*KINDS, "bpe", "spm", "t5", "plamo2", "rwkv"])
def metadata(request: pytest.FixtureRequest) -> Metadata:
    """The metadata of a file of each kind."""
    kind = request.param
    if kind in KINDS:
        load: Callable[[str], Metadata] = request.getfixturevalue("published")
        return load(f"vocabs/ggml-vocab-{kind}.gguf")
    if kind in ("bpe", "spm"):
        found: Metadata = request.getfixturevalue(f"{kind}_metadata")
        return found
    if kind == "rwkv":
        return {"tokenizer.ggml.model": kind, "tokenizer.ggml.token_type": [3] + [1] * 256,
                "tokenizer.ggml.tokens": ["<s>", *(repr(bytes([b]))[2:-1] for b in range(256))]}
    texts = ["<unk>", "<s>", "</s>", "<pad>", *(f"<0x{b:02X}>" for b in range(256)), "\u2581", "a"]
    types = [2, 3, 3, 3] + [6] * 256 + [1] * 2
    return {"tokenizer.ggml.model": kind, "tokenizer.ggml.tokens": texts,
            "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": [0.0] * len(texts)}


def test_as_if_the_key_were_absent(metadata: Metadata, caplog: pytest.LogCaptureFixture,
                                   rng: np.random.Generator) -> None:
    n_vocab = len(metadata["tokenizer.ggml.tokens"])
    for key in KEYS:
        full = f"tokenizer.ggml.{key}"
        without = Tokenizer.from_gguf({k: v for k, v in metadata.items() if k != full})
        for value in rng.permutation(np.array(wrong(n_vocab), object))[:3].tolist():
            caplog.clear()
            with caplog.at_level(logging.WARNING, "unladen"):
                found = Tokenizer.from_gguf({**metadata, full: value})
            assert same(found, without), (key, value)
            said = [r.getMessage() for r in caplog.records if "ignored" in r.getMessage()]
            old = key in OLD_KEYS.values() and not said  # the newer key is used instead
            assert old or (len(said) == 1 and f"{key}=" in said[0]), (key, value)


def test_ends_fall_back_to_those_of_the_kind(spm_metadata: Metadata,
                                             caplog: pytest.LogCaptureFixture) -> None:
    bad = {f"tokenizer.ggml.{name}_token_id": 4294967295 for name in ("bos", "eos", "unknown")}
    tokenizer = Tokenizer.from_gguf({**spm_metadata, **bad}, "some.gguf")
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert 2 in tokenizer.eog_ids and tokenizer.encode("hello")[0] == 1
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "some.gguf: bos_token_id=4294967295, eos_token_id=4294967295, unknown_token_id=4294967295:")


def test_flags_written_as_numbers(spm_metadata: Metadata) -> None:
    for value in (0, 1, np.uint8(0), np.bool_(True)):
        made = Tokenizer.from_gguf({**spm_metadata, "tokenizer.ggml.add_bos_token": value})
        assert made.add_bos is bool(value)
