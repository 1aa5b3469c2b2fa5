"""The tiny model's vocabulary, and the file in the package."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from unladen.gguf import open_gguf
from unladen.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "src/unladen/data/tiny.gguf"
MAX_BYTES = 3_000_000


@pytest.fixture
def vocab(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools/tiny")
    return importlib.import_module("vocab")


@pytest.fixture
def texts(vocab: ModuleType, rng: np.random.Generator) -> list[str]:
    compose = importlib.import_module("stories").compose
    return list(compose(int(rng.integers(2**32)), 110))


def test_a_learned_vocabulary_spells_any_text(vocab: ModuleType, texts: list[str],
                                              rng: np.random.Generator) -> None:
    pieces = vocab.learn(texts[:100], 600)
    assert len(set(pieces)) == len(pieces) == 600
    encoder = vocab.Encoder(pieces)
    strange = "".join(map(chr, rng.integers(32, 0xD7FF, 50))).replace(vocab.SPACE, "")
    for text in (*texts[100:110], strange, "two  spaces\nand\ttabs "):
        ids = encoder.encode(text)
        raw = b"".join(bytes([i - vocab.FIRST_BYTE]) if i < vocab.FIRST_BYTE + 256
                       else pieces[i].encode() for i in ids)
        assert raw.decode().replace(vocab.SPACE, " ") == " " + text


def test_the_shipped_model_is_small_and_complete() -> None:
    assert MODEL.stat().st_size < MAX_BYTES
    with open_gguf(MODEL) as file:
        assert file.metadata["general.architecture"] == "llama"
        assert file.metadata["general.license"] == "apache-2.0"
        n_vocab = len(file.metadata["tokenizer.ggml.tokens"])
        assert file.tensors["token_embd.weight"].shape[0] == n_vocab


def test_the_shipped_model_reads_as_it_was_taught(vocab: ModuleType, texts: list[str]) -> None:
    with open_gguf(MODEL) as file:
        pieces = [str(piece) for piece in file.metadata["tokenizer.ggml.tokens"]]
        tokenizer = Tokenizer.from_gguf(file.metadata)
    encoder = vocab.Encoder(pieces)
    for text in texts:
        assert list(tokenizer.encode(text)) == [vocab.BOS, *encoder.encode(text)]
