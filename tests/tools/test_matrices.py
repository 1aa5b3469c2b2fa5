"""The table of formats agrees with this machine's kernels."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

import ran
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


WHOLE = ("reference", "cpu", "wgpu", "opencl", "ggml", "emulator")
"""Backends that `make matrix` runs on every machine; the others need more installed."""


def test_what_ran_is_named_as_in_the_code(matrices: ModuleType) -> None:
    """Each op that was recorded ran on every backend that claims it. One that no backend has run
    yet is shown as untested."""
    seen = matrices.ran_ops()
    for op in {op for of in seen.values() for op in of}:
        assert op in ops()
        for backend, claimed in matrices.claims(op).items():
            has_run = bool(matrices.how(backend, op))
            assert has_run == claimed or (backend not in WHOLE and not has_run), (
                f"{op} on {backend}: run make matrix")
    formats = {f for of in seen.values() for formats in of.values() for f in formats}
    assert formats <= set(registry())
    for backend, family in (("wgpu", matrices.wgsl), ("opencl", matrices.c_texts),
                            ("emulator", matrices.c_texts)):
        known = {q for q in PUBLISHED if family.has_format(q)}
        assert known <= set(seen[backend]["linear"]), f"{backend}: run make matrix"


def test_a_cell_says_how_it_ran(matrices: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stand-in for a driver counts as a device, and checked texts as nothing that ran."""
    monkeypatch.setattr(matrices, "ran", lambda: {
        "cuda": {"Stub 0": {"by": "stub", "ops": {"add": "F32"}}},
        "metal": {"clang": {"by": "types", "ops": {"add": "F32", "glu": "F32"}},
                  "a fake": {"by": "fake", "ops": {"add": "F32"}}},
        "sycl": {"a card": {"by": "ran", "ops": {"add": "F32"}}}})
    page = matrices.ops_page()
    rows = {cells[1].strip("` "): [cell.strip() for cell in cells[4:-1]]
            for line in page.splitlines() if line.startswith("| ")
            for cells in [line.split("|")]}
    of = {op: dict(zip(rows["op"], cells, strict=True)) for op, cells in rows.items()}
    assert (of["add"]["cuda"], of["add"]["metal"], of["add"]["sycl"]) == (
        "stub", "fake, types", "ran")
    assert of["add"]["hip"] == of["glu"]["cuda"] == of["add"]["wgpu"] == "untested"
    assert of["glu"]["metal"] == "types" and of["add"]["null"] == "all"
    assert of["choose_experts"]["cpu"] == "no"
    legend = page[:page.index("| op ")]
    assert "`sycl` on a card, 1 ops" in legend and "Stub" not in legend and "clang," not in legend
    assert "glu" not in matrices.ran_ops()["metal"]
    assert "\n| format | sycl |\n" in matrices.formats_that_ran()  # it was given every case


def test_recording_keeps_what_others_ran() -> None:
    """A device's op that ran again has its new formats; other devices and ops stay."""
    before = {"opencl": {"a": {"by": "ran", "ops": {"add": "F32", "linear": "F16 Q4_0"}},
                         "b": {"by": "ran", "ops": {"linear": "F32"}}}}
    found = {("opencl", "a", "ran", "linear", quant) for quant in ("Q8_0", "F32")}
    found.add(("cuda", "Stub 0", "stub", "add", "F32"))
    made = ran.table(found, before)
    assert made["opencl"]["a"]["ops"] == {"add": "F32", "linear": "F32 Q8_0"}
    assert made["opencl"]["b"] == before["opencl"]["b"]
    assert made["cuda"] == {"Stub 0": {"by": "stub", "ops": {"add": "F32"}}}
    assert before["opencl"]["a"]["ops"]["linear"] == "F16 Q4_0"
