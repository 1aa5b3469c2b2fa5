"""The block formats that GGUF has, and what is asked of one that it hasn't (yet)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from unladen import quants
from unladen._native import cpu


class Published(NamedTuple):
    """A tensor type's number in the file, and the weights and bytes of a block."""

    type_id: int
    block_size: int
    block_bytes: int


# Q8_1 (9) and Q8_K (15) are forms of activations and never lie in a file.
_LIVE = """
F32 0 1 4 | F16 1 1 2 | Q4_0 2 32 18 | Q4_1 3 32 20 | Q5_0 6 32 22 | Q5_1 7 32 24 | Q8_0 8 32 34
Q2_K 10 256 84 | Q3_K 11 256 110 | Q4_K 12 256 144 | Q5_K 13 256 176 | Q6_K 14 256 210
IQ2_XXS 16 256 66 | IQ2_XS 17 256 74 | IQ3_XXS 18 256 98 | IQ1_S 19 256 50 | IQ4_NL 20 32 18
IQ3_S 21 256 110 | IQ2_S 22 256 82 | IQ4_XS 23 256 136 | I8 24 1 1 | I16 25 1 2 | I32 26 1 4
I64 27 1 8 | F64 28 1 8 | IQ1_M 29 256 56 | BF16 30 1 2 | TQ1_0 34 256 54 | TQ2_0 35 256 66
MXFP4 39 32 17 | NVFP4 40 64 36 | Q1_0 41 128 18 | Q2_0 42 64 18
"""
PUBLISHED: Mapping[str, Published] = {
    name: Published(*map(int, numbers))
    for name, *numbers in (row.split() for row in _LIVE.replace("\n", "|").split("|") if row)}
"""Every live tensor type of GGUF that holds weights, by name. Each needs a kernel on every device;
a format that isn't here may do without: devices read it through ``dequantize``."""


def native_formats() -> list[object]:
    """Every format, for tests of the CPU's kernels: one that may do without kernels and has none is
    skipped."""
    level = cpu.levels()[-1]
    return [name if name in PUBLISHED or cpu.has_kernel(level, name) else pytest.param(
        name, marks=pytest.mark.skip(reason=f"{name} has no header for the CPU, which keeps it as "
                                            "F32"))
            for name in sorted(quants.registry())]
