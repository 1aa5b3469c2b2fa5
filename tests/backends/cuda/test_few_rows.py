"""Products of few rows as NVRTC compiles them: registers, instructions, and the order of loads."""

from __future__ import annotations

import re

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.storing import Storing
from backends.cuda import gate
from backends.nvrtc import ptx
from cases import running
from cases.base import Maker
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.lowering._matrix import TILES_THREADS
from unladen.backends._gpu.lowering._products import MIN_GROUPS
from unladen.backends.base import BackendOptions
from unladen.backends.cuda.driver import CUDA, chip_named

Rng = np.random.Generator
THREADS = "(WG, MIN_GROUPS)"


def few(quant: str, chip: int, n_tokens: int, rng: Rng) -> c_texts.Source:
    """The text of a product of ``n_tokens`` rows of x that adds a residual, with as many threads as
    one has."""
    m = Maker(rng, n_tokens)
    case = m.case("linear", m.input("T", 1024), m.input("T", 32), attrs={"residual": True},
                  weights={"w0": m.weight("w0", 32, 1024, quant=quant)})
    backend = EmulatedBackend(c_texts, features=chip_named(chip).abilities)
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatedProgram)
    size = program.step.pack()[1]
    (d,) = [d for d in program.lowered.dispatches if d.kernel.startswith("matvec") and d.grid(size)]
    assert d.kernel == "matvec_mma" or d.threads == TILES_THREADS
    return c_texts.assemble(d.kernel, d.quant, d.constants, CUDA.port)


@pytest.mark.parametrize(("quant", "n_tokens"), [
    ("Q4_K", 1), ("Q6_K", 1), ("Q8_0", 1), ("F16", 1), ("Q8_0", 4), ("Q4_K", 4)])
def test_registers_of_two_workgroups(quant: str, n_tokens: int, nvrtc: Compiler, rng: Rng) -> None:
    """The compiler then has room to issue the loads of all chunks before it uses one; otherwise it
    saves registers, and spills some products of Q6_K and F16."""
    for chip in (80, 90):
        text = few(quant, chip, n_tokens, rng).text
        assert text.count(THREADS) == 1
        free, saved = gate.takes(text, chip), gate.takes(text.replace(THREADS, "(WG)"), chip)
        assert isinstance(free, tuple) and isinstance(saved, tuple)
        assert 0 < free[0] <= 65536 // (MIN_GROUPS * TILES_THREADS) and free[1] == 0
        assert free[0] > saved[0] or n_tokens > 1, chip


def test_only_products_of_tiles_ask_for_registers(rng: Rng) -> None:
    m = Maker(rng, 4)
    case = m.case("linear", m.input("T", 64), weights={"w0": m.weight("w0", 32, 64, quant="F16")})
    for abilities, asks in ((chip_named(90).abilities, [True, False]), (frozenset(), [False] * 2)):
        program = running.Bench(EmulatedBackend(c_texts, features=abilities), case).program
        assert isinstance(program, EmulatedProgram)
        assert ["MIN_GROUPS" in d.constants for d in program.lowered.dispatches
                if d.kernel == "matvec"] == asks


@pytest.mark.parametrize("quant", ["Q4_K", "Q8_0", "F16"])
def test_what_comes_before_the_first_weights(quant: str, nvrtc: Compiler, rng: Rng) -> None:
    """All weights of a workgroup are asked for before the launch before ends. The residual is
    loaded before them, and one row of x needs nothing of the step's words."""
    for n_tokens in (1, 4):
        source = few(quant, 90, n_tokens, rng)
        text = ptx(nvrtc, source.text)
        lines = re.findall(r"cp\.async\.bulk\.prefetch|griddepcontrol\.wait|ld\.global\S*", text)
        assert lines[:2] == ["cp.async.bulk.prefetch", "griddepcontrol.wait"]
        loads = [line for line in lines if line.startswith("ld.global")]
        loads = loads if n_tokens == 1 else loads[1:]
        assert loads[0] == "ld.global.f32" and any("v4" in load for load in loads[1:]), loads
        place = [b.name for b in source.bindings].index("step")
        uses = bool(re.search(rf"ld\.param\S* .*kernel_main_param_{place}\]", text))
        assert uses == (n_tokens > 1)


@pytest.mark.parametrize(("quant", "n_tokens"), [("Q6_K", 9), ("Q4_K", 40), ("BF16", 5)])
def test_more_rows_ask_for_weights_before_they_wait(quant: str, n_tokens: int, nvrtc: Compiler,
                                                    rng: Rng) -> None:
    text = ptx(nvrtc, few(quant, 90, n_tokens, rng).text)
    found = re.findall(r"cp\.async\.bulk\.prefetch|griddepcontrol\.wait|ld\.global|ldmatrix", text)
    assert found[:2] == ["cp.async.bulk.prefetch", "griddepcontrol.wait"]
    assert found.count("cp.async.bulk.prefetch") == 1 and "ldmatrix" in found


@pytest.mark.parametrize("style", ["norm", "neox"])
def test_stores_load_nothing_after_the_sums(style: str, nvrtc: Compiler, rng: Rng) -> None:
    """Where keys and values go, and how they are rotated, is loaded before the weights."""
    quant = "Q4_K" if style == "norm" else "F32"
    case = Storing(rng, style, 8, formats=[quant] * 3, kv_types=("F16", "F16"), n_in=256)
    backend = EmulatedBackend(c_texts, features=chip_named(90).abilities)
    program = case.compiled(backend, joined=True, options=BackendOptions())[0]
    assert isinstance(program, EmulatedProgram)
    found = [d for d in program.lowered.dispatches
             if d.kernel == "matvec" and d.constants.get("CACHED")]
    assert len(found) == 2
    for d in found:
        text = ptx(nvrtc, d)
        before, tail = text.rsplit("bar.sync", 1)
        assert "ld.global" in before and "ld.global" not in tail and "st.global" in tail


@pytest.mark.parametrize(("quant", "unit"), [("Q8_0", "m16n8k32"), ("Q6_K", "m16n8k16")])
def test_several_rows_meet_matrix_units(quant: str, unit: str, nvrtc: Compiler, rng: Rng) -> None:
    for n_tokens in (1, 2, 8):
        text = ptx(nvrtc, few(quant, 90, n_tokens, rng).text)
        assert (f"{unit}.row.col.s32.s8" in text, "dp4a" in text) == (n_tokens > 1, n_tokens == 1)


@pytest.mark.parametrize("quant", ["Q6_K", "Q4_0", "Q3_K"])
def test_zero_is_not_taken_from_each_code(quant: str, nvrtc: Compiler, rng: Rng) -> None:
    """Which needs the top bits of each word."""
    for n_tokens in (1, 4):
        assert str(0x80808080 - (1 << 32)) not in ptx(nvrtc, few(quant, 90, n_tokens, rng).text)
