"""The table of formats agrees with this machine's kernels."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from formats import PUBLISHED
from unladen._native import cpu as native
from unladen.graph.ops import registry as ops
from unladen.quants import registry

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def matrices(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(TOOLS)
    return importlib.import_module("gen_matrices")


def test_levels_are_as_the_kernels_say(matrices: ModuleType) -> None:
    """The table, read from the sources, agrees with the kernels at each level of this machine."""
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
            # The reverse needn't hold: some processors don't screen some heads.
            if native.spared_bytes(level, quant):
                assert "screen" in column[quant], (level, quant)


def test_what_can_be_written(matrices: ModuleType) -> None:
    level = native.levels()[-1]
    assert matrices._writable() == {q for q in registry() if native.can_quantize(q, level)}


def test_what_ran_is_named_as_in_the_code(matrices: ModuleType) -> None:
    """Each op that was recorded ran on every backend that claims it. One that no backend has run
    yet is shown as untested."""
    ran = matrices.ran_ops()
    for op in {op for of in ran.values() for op in of}:
        assert op in ops()
        for backend, claimed in matrices.claims(op).items():
            assert (op in ran[backend]) == claimed, f"{op} on {backend}: run make matrix"
    formats = {f for of in ran.values() for formats in of.values() for f in formats}
    assert formats <= set(registry())
    for backend, family in (("wgpu", matrices.wgsl), ("opencl", matrices.c_texts),
                            ("emulator", matrices.c_texts)):
        known = {q for q in PUBLISHED if family.has_format(q)}
        assert known <= set(ran[backend]["linear"]), f"{backend}: run make matrix"
