"""Decoding is compared bit for bit with the `gguf` package, or with a decoder written by hand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from formats import PUBLISHED
from unladen import quants

NAMES = sorted(name for name, quant in quants.registry().items()
               if quant.__module__.startswith("unladen."))
N_BLOCKS = 4000


def blocks_of(name: str, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Random blocks, and for each byte a block full of it: these have extreme scales."""
    n_bytes = quants.get(name).block_bytes
    same = np.repeat(np.arange(256, dtype=np.uint8)[:, None], n_bytes, axis=1)
    return np.concatenate([same, rng.integers(0, 256, (N_BLOCKS, n_bytes), np.uint8)])


def assert_same_bits(got: npt.NDArray[np.float32], want: npt.NDArray[np.float32]) -> None:
    """Equal in all 32 bits, so -0 differs from 0; a NaN equals a NaN."""
    assert got.dtype == want.dtype == np.float32
    assert got.shape == want.shape
    same = (got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), f"{np.argwhere(~same)[:5].tolist()} differ"


def by_package(gguf: Any, name: str, raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name])
    return np.asarray(values, np.float32)


def by_hand(name: str, block: bytes) -> list[float]:
    """The formats that the package lacks, one weight at a time."""
    plain = {"F64": "<d", "I8": "<b", "I16": "<h", "I32": "<i", "I64": "<q"}
    if name in plain:
        return [struct.unpack(plain[name], block)[0]]
    d: float = struct.unpack("<e", block[:2])[0]
    if name == "Q1_0":
        return [d if block[2 + i // 8] >> i % 8 & 1 else -d for i in range(128)]
    assert name == "Q2_0"
    return [d * ((block[2 + i // 4] >> 2 * (i % 4) & 3) - 1) for i in range(64)]


BY_HAND = ["F64", "I8", "I16", "I32", "I64", "Q1_0", "Q2_0"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_HAND])
def test_same_as_the_gguf_package(name: str, rng: np.random.Generator) -> None:
    gguf = pytest.importorskip("gguf")
    if name not in gguf.GGMLQuantizationType.__members__ and name not in PUBLISHED:
        pytest.skip(f"the gguf package doesn't know {name}: there is nothing to compare it with")
    raw = blocks_of(name, rng)
    shape = (len(raw), quants.get(name).block_size)
    assert_same_bits(quants.dequantize(name, raw, shape),
                     by_package(gguf, name, raw).reshape(shape))


@pytest.mark.parametrize("name", BY_HAND)
def test_same_as_by_hand(name: str, rng: np.random.Generator) -> None:
    raw = blocks_of(name, rng)
    with np.errstate(all="ignore"):
        want = np.array([by_hand(name, block.tobytes()) for block in raw]).astype(np.float32)
    assert_same_bits(quants.dequantize(name, raw, want.shape), want)


@pytest.mark.parametrize("name", NAMES)
def test_no_weights(name: str) -> None:
    empty = np.empty(0, np.uint8)
    assert quants.dequantize(name, empty, (0, 256)).shape == (0, 256)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_may_lie_apart(name: str, rng: np.random.Generator) -> None:
    raw = blocks_of(name, rng)
    quant = quants.get(name)
    with np.errstate(all="ignore"):
        assert_same_bits(quant.dequantize(raw[::3]), quant.dequantize(raw[::3].copy()))


def test_files(shared: Path) -> None:
    gguf = pytest.importorskip("gguf")
    paths = sorted((shared / "models").glob("*.gguf"))
    if not paths:
        pytest.skip("no models in the shared test data")
    for path in paths:
        for tensor in gguf.GGUFReader(path).tensors:
            shape = tuple(int(n) for n in tensor.shape[::-1])
            raw = np.ascontiguousarray(tensor.data).view(np.uint8)
            name = tensor.tensor_type.name
            assert_same_bits(quants.dequantize(name, raw, shape),
                             by_package(gguf, name, tensor.data).reshape(shape))
