"""NaN and infinity are found wherever they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.base import random_weights
from unladen import Model
from unladen.errors import GGUFError
from unladen.gguf import GGUFWriter, check_numbers, open_gguf
from unladen.quants import get, registry


def holding(path: Path, quant: str, raw: np.ndarray, order: str) -> None:
    writer = GGUFWriter(path, "llama", byteorder=order)
    writer.add_tensor("sound", np.ones(7, np.float32))
    n = raw.size // get(quant).block_bytes * get(quant).block_size
    writer.add_tensor("t", raw, quant=quant, shape=(1, n))
    writer.write()


def scale_of(quant: str) -> int | None:
    """The offset of a block's float16 scale; None where it has none."""
    found = [at for at in get(quant).fields16 if quant not in ("I16", "BF16")]
    return found[-1] if found else None


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("quant", sorted(registry()))
def test_a_bad_block_is_named(tmp_path: Path, rng: np.random.Generator, quant: str, order: str
                              ) -> None:
    n_blocks = int(rng.integers(2, 9))
    raw = random_weights(rng, quant, n_blocks * get(quant).block_size)
    holding(tmp_path / "good.gguf", quant, raw, order)
    with open_gguf(tmp_path / "good.gguf") as file:
        check_numbers(file)
    plain = {"F32": (np.float32, 4), "F64": (np.float64, 8), "BF16": (np.uint16, 2)}
    block, at = int(rng.integers(n_blocks)), scale_of(quant)
    start = block * get(quant).block_bytes
    if quant in plain:
        value = np.array([0x7FC0], np.uint16) if quant == "BF16" else np.array(
            [rng.choice([np.nan, np.inf, -np.inf])], plain[quant][0])
        raw[start:start + plain[quant][1]] = value.view(np.uint8)
    elif at is not None:
        bits = rng.choice(np.array([0x7E00, 0x7C00, 0xFC00], np.uint16), 1)
        raw[start + at:start + at + 2] = bits.view(np.uint8)
    holding(tmp_path / "bad.gguf", quant, raw, order)
    with open_gguf(tmp_path / "bad.gguf") as file:
        if np.isfinite(dequantized(quant, raw)).all():
            check_numbers(file)  # integers, and scales that have no NaN
            return
        with pytest.raises(GGUFError, match=rf"t \({quant}\).* block {block} of {n_blocks}") as e:
            check_numbers(file)
        assert e.value.offset == file.tensors["t"].offset + start


def dequantized(quant: str, raw: np.ndarray) -> np.ndarray:
    from unladen.quants import dequantize
    with np.errstate(all="ignore"):
        return dequantize(quant, raw, (raw.size // get(quant).block_bytes, get(quant).block_size))


def test_a_model_is_checked_if_that_is_wanted(make_model, rng: np.random.Generator) -> None:
    path = make_model()
    with Model(path, check_tensors=True) as model:
        at = model.tensors["blk.1.ffn_up.weight"].offset
    raw = bytearray(path.read_bytes())
    raw[at + 4 * 77:at + 4 * 78] = np.float32(np.nan).tobytes()
    path.write_bytes(raw)
    with pytest.raises(GGUFError, match=r"blk\.1\.ffn_up\.weight .* block 77 of"):
        Model(path, check_tensors=True)
    Model(path).close()
