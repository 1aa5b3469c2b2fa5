"""Real files: this reader and the oracle agree on every key and every tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen.gguf import open_gguf

gguf = pytest.importorskip("gguf")
SHARED = Path(__file__).resolve().parents[3] / "shared"
FILES = sorted([*SHARED.glob("models/*.gguf"), *SHARED.glob("vocabs/*.gguf")])
LARGE = 4 << 20
"""Bytes of the largest file to compare: the oracle takes many seconds for larger ones."""


def shown(field: Any) -> Any:
    """The value of an oracle's field, strings as bytes."""
    if field.types[-1] is gguf.GGUFValueType.STRING:
        values = [field.parts[i].tobytes() for i in field.data]
    else:
        values = [field.parts[i][0].item() for i in field.data]
    return values if field.types[0] is gguf.GGUFValueType.ARRAY else values[0]


@pytest.mark.skipif(not FILES, reason=f"needs the shared test data in {SHARED}")
@pytest.mark.parametrize("path", [p for p in FILES if p.stat().st_size <= LARGE],
                         ids=lambda p: p.stem)
def test_agrees_with_the_oracle(path: Path) -> None:
    reader = gguf.GGUFReader(path)
    with open_gguf(path) as file:
        fields = {k: v for k, v in reader.fields.items() if not k.startswith("GGUF.")}
        assert list(file.metadata) == list(fields)
        for key, field in fields.items():
            value = file.metadata[key]
            if field.types == [gguf.GGUFValueType.STRING]:
                value = file.metadata.raw(key)
            elif field.types[-1] is gguf.GGUFValueType.STRING:
                value = [value.raw(i) for i in range(len(value))]
            elif len(field.types) > 1:
                value = value.numpy().tolist()
            assert value == shown(field), key
            assert file.metadata.type_of(key).rstrip("[]") == field.types[-1].name
        assert list(file.tensors) == [t.name for t in reader.tensors]
        for t in reader.tensors:
            info = file.tensors[t.name]
            assert (info.quant, info.shape) == (t.tensor_type.name, tuple(t.shape.tolist()[::-1]))
            assert (info.offset, info.nbytes) == (t.data_offset, t.n_bytes)
            assert np.array_equal(info.data, t.data.reshape(-1).view(np.uint8))


def test_a_large_vocabulary(shared: Path, rng: np.random.Generator) -> None:
    """The merges are pairs of tokens, which would fail after any misread length."""
    with open_gguf(shared / "vocabs" / "ggml-vocab-gemma-4.gguf") as file:
        tokens = file.metadata["tokenizer.ggml.tokens"]
        merges = file.metadata["tokenizer.ggml.merges"]
        assert len(tokens) == len(file.metadata["tokenizer.ggml.scores"]) == 262144
        known = set(tokens)
        for i in [0, len(merges) - 1, *rng.integers(0, len(merges), 1000).tolist()]:
            left, right = merges[i].split(" ")
            assert {left, right, left + right} <= known
