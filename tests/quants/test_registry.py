"""The registry has every format of GGUF, and a plug-in can add one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from formats import PUBLISHED
from unladen import quants
from unladen.errors import InvalidArgument, UnsupportedQuant

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


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_format(name: str) -> None:
    quant, published = quants.get(name), PUBLISHED[name]
    assert (quant.name, quant.type_id, quant.block_size, quant.block_bytes) == (name, *published)
    assert quants.by_id(published.type_id) is quant
    assert quant.row_bytes(3 * quant.block_size) == 3 * quant.block_bytes


def test_formats_beyond_the_published_ones_have_numbers_of_their_own() -> None:
    known = list(quants.registry().values())
    assert len({q.type_id for q in known}) == len(known) >= len(PUBLISHED)


@pytest.mark.parametrize("removed", [4, 5, 31, 32, 33, 36, 37, 38, 9, 15, -1, 1 << 31])
def test_other_ids_are_unknown(removed: int) -> None:
    assert quants.by_id(removed) is None


@pytest.mark.parametrize("name", ["Q4_2", "q4_k", "", "Q8_1"])
def test_unknown_name(name: str) -> None:
    with pytest.raises(UnsupportedQuant, match="Q4_K"):
        quants.get(name)


def test_plain_types_are_one_number() -> None:
    for name, (_, block_size, block_bytes) in PUBLISHED.items():
        if block_size == 1 and block_bytes != 1:
            quant = quants.get(name)
            fields = {2: quant.fields16, 4: quant.fields32, 8: quant.fields64}
            assert fields.pop(block_bytes) == (0,)
            assert not any(fields.values())


@pytest.mark.parametrize("name", PUBLISHED)
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
