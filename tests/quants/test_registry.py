"""What formats there are, and that strangers can add one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unladen import quants
from unladen.errors import InvalidArgument, UnsupportedQuant

# Every live tensor type of GGUF that holds weights: name, id, weights and bytes per block.
# Q8_1 (9) and Q8_K (15) are forms of activations and never lie in a file.
LIVE = """
F32 0 1 4 | F16 1 1 2 | Q4_0 2 32 18 | Q4_1 3 32 20 | Q5_0 6 32 22 | Q5_1 7 32 24 | Q8_0 8 32 34
Q2_K 10 256 84 | Q3_K 11 256 110 | Q4_K 12 256 144 | Q5_K 13 256 176 | Q6_K 14 256 210
IQ2_XXS 16 256 66 | IQ2_XS 17 256 74 | IQ3_XXS 18 256 98 | IQ1_S 19 256 50 | IQ4_NL 20 32 18
IQ3_S 21 256 110 | IQ2_S 22 256 82 | IQ4_XS 23 256 136 | I8 24 1 1 | I16 25 1 2 | I32 26 1 4
I64 27 1 8 | F64 28 1 8 | IQ1_M 29 256 56 | BF16 30 1 2 | TQ1_0 34 256 54 | TQ2_0 35 256 66
MXFP4 39 32 17 | NVFP4 40 64 36 | Q1_0 41 128 18 | Q2_0 42 64 18
"""
TYPES = [row.split() for row in LIVE.replace("\n", "|").split("|") if row.strip()]

PLUGIN = '''
import numpy as np
from unladen.quants.base import Quant

class HALVES(Quant):
    """Signed bytes that count halves."""
    name, type_id, block_size, block_bytes = "HALVES", 999, 2, 2

    @classmethod
    def dequantize(cls, blocks):
        return blocks.view(np.int8) * np.float32(0.5)
'''


@pytest.mark.parametrize(("name", "type_id", "block_size", "block_bytes"), TYPES)
def test_live_type(name: str, type_id: str, block_size: str, block_bytes: str) -> None:
    quant = quants.get(name)
    assert (quant.name, quant.type_id) == (name, int(type_id))
    assert (quant.block_size, quant.block_bytes) == (int(block_size), int(block_bytes))
    assert quants.by_id(int(type_id)) is quant
    assert quant.row_bytes(3 * quant.block_size) == 3 * quant.block_bytes


def test_nothing_else_is_built_in() -> None:
    built_in = {q.name for q in quants.registry().values() if q.__module__.startswith("unladen.")}
    assert built_in == {row[0] for row in TYPES}


@pytest.mark.parametrize("removed", [4, 5, 31, 32, 33, 36, 37, 38, 9, 15, -1, 1 << 31])
def test_other_ids_are_unknown(removed: int) -> None:
    assert quants.by_id(removed) is None


@pytest.mark.parametrize("name", ["Q4_2", "q4_k", "", "Q8_1"])
def test_unknown_name(name: str) -> None:
    with pytest.raises(UnsupportedQuant, match="Q4_K"):
        quants.get(name)


def test_plain_types_are_one_number() -> None:
    for name, _, block_size, block_bytes in TYPES:
        if block_size == "1" and block_bytes != "1":
            quant = quants.get(name)
            fields = {"2": quant.fields16, "4": quant.fields32, "8": quant.fields64}
            assert fields.pop(block_bytes) == (0,)
            assert not any(fields.values())


@pytest.mark.parametrize("name", [row[0] for row in TYPES])
def test_byte_order_fields_are_apart_and_inside(name: str) -> None:
    quant = quants.get(name)
    spans = sorted((at, at + width)
                   for width, fields in ((2, quant.fields16), (4, quant.fields32),
                                         (8, quant.fields64)) for at in fields)
    ends = [0, *(stop for _, stop in spans)]
    assert all(start >= end for (start, _), end in zip(spans, ends, strict=False))
    assert ends[-1] <= quant.block_bytes


@pytest.mark.parametrize(("name", "fields16", "fields32"), [
    ("Q8_0", (0,), ()), ("Q4_K", (0, 2), ()), ("Q6_K", (208,), ()), ("MXFP4", (), ()),
    ("Q5_1", (0, 2), (4,)), ("IQ1_M", (48, 50, 52, 54), ()), ("IQ4_XS", (0, 2), ()),
    ("IQ2_XXS", (0,), (6, 14, 22, 30, 38, 46, 54, 62)),
])
def test_byte_order_fields(name: str, fields16: tuple[int, ...], fields32: tuple[int, ...]
                           ) -> None:
    assert (quants.get(name).fields16, quants.get(name).fields32) == (fields16, fields32)


def test_read_only_type_says_so() -> None:
    with pytest.raises(UnsupportedQuant, match="can be read, not written"):
        quants.quantize("IQ2_XXS", np.zeros((1, 256), np.float32))
    with pytest.raises(UnsupportedQuant, match="blocks of 32"):
        quants.quantize("Q8_0", np.zeros((2, 33), np.float32))


def test_length_must_fit_the_shape() -> None:
    raw = np.zeros(36, np.uint8)
    assert quants.dequantize("Q4_0", raw, (2, 32)).shape == (2, 32)
    for shape in [(1, 32), (3, 32), (2, 31), (64, 2)]:
        with pytest.raises(InvalidArgument, match="36 bytes are no Q4_0"):
            quants.dequantize("Q4_0", raw, shape)


def test_plugin_folder_adds_a_type(tmp_path: Path) -> None:
    (tmp_path / "quants").mkdir()
    (tmp_path / "quants" / "halves.py").write_text(PLUGIN, encoding="utf-8")
    code = ("import numpy as np; from unladen import quants; "
            "raw = np.array([1, 255, 4, 0], np.uint8); "
            "print(quants.by_id(999).name, quants.dequantize('HALVES', raw, (2, 2)).tolist(), "
            "'Q4_K' in quants.registry())")
    source = str(Path(quants.__file__).parents[2])
    env = os.environ | {"UNLADEN_PLUGIN_PATH": str(tmp_path), "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True,
                          check=False)
    assert done.stdout.strip() == "HALVES [[0.5, -0.5], [2.0, 0.0]] True", done.stderr
