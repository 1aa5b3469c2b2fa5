"""The table of formats says what this machine's kernels do."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from formats import PUBLISHED
from unladen._native import cpu as native
from unladen.quants import registry

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def matrices(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("gen_matrices")


def test_levels_are_as_the_kernels_say(matrices: ModuleType) -> None:
    """What is read from the sources, and what the kernels answer at each level at hand."""
    ways = matrices._ways()
    for level in native.levels():
        column = next(cells for name, cells in ways.items() if level in name.split(", "))
        for quant in registry():
            assert (quant in column) == native.has_kernel(level, quant), (level, quant)
            if quant not in column:
                assert quant not in PUBLISHED
                continue
            # Float products take panels of 16 numbers, integer ones the block's.
            is_float = column[quant].startswith("float")
            assert is_float == (native.packed_block(level, quant, False) == 16), (level, quant)
            # Not the other way round: some processors leave some heads whole.
            if native.spared_bytes(level, quant):
                assert "screen" in column[quant], (level, quant)


def test_what_can_be_written(matrices: ModuleType) -> None:
    level = native.levels()[-1]
    assert matrices._writable() == {q for q in registry() if native.can_quantize(q, level)}
