"""NVIDIA's run-time compiler takes the kernels for matrix units, for each chip that has them, and
keeps nearly all that a thread holds in registers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends.nvrtc import compiled, ptx, text_of
from cases import moe, running
from cases.base import Case, Maker
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends.base import BackendOptions
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
CHIPS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_120")
MOST_SPILLED = 16
"""Bytes of a thread that ptxas may keep in memory, where it wants room for one more workgroup."""


def product(quant: str, rng: Rng) -> Case:
    m = Maker(rng, 70)
    return m.case("linear", m.input("T", 512), weights={"w0": m.weight("w0", 48, 512, quant=quant)})


def attention(rng: Rng) -> Case:
    m = Maker(rng, 21, n_seqs=1, max_history=90, kv_types=("F16", "F16"))
    spec = KVSpec(0, 2, 128, 128)
    return m.case("attention", m.input("T", 8 * 128), state=spec,
                  attrs={"n_heads": 8, "scale": 0.1}, kv=m.cache(spec))


CASES = {
    "Q4_K": lambda rng: product("Q4_K", rng), "Q6_K": lambda rng: product("Q6_K", rng),
    "Q8_0": lambda rng: product("Q8_0", rng), "Q5_0": lambda rng: product("Q5_0", rng),
    "F16": lambda rng: product("F16", rng), "BF16": lambda rng: product("BF16", rng),
    "experts": lambda rng: moe.one(rng, 40, 6, 2, "silu", "Q4_K", "Q6_K", twists=("gate_up",),
                                   sizes=(256, 256)),
    "attention": attention}


FEATURES = frozenset({"subgroups", "int_dot", "mma", "pdl"})


def dispatches(case: Case, features: frozenset[str] = FEATURES) -> Iterator[Dispatch]:
    for precise in (False, True):
        backend = EmulatedBackend(c_texts, features=features)
        program = running.Bench(backend, case, BackendOptions(precise=precise)).program
        assert isinstance(program, EmulatedProgram)
        for d in program.lowered.dispatches:
            if d.kernel in c_texts.NVIDIA_ONLY or d.constants.get("TILED"):
                yield d


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K", "Q8_0", "F16", "BF16", "experts"])
def test_cubins_of_four_warps(name: str, nvrtc: Compiler, rng: Rng) -> None:
    """Nothing is spilled, and ptxas lets all products of a group run together: it tells if a thread
    touches a register of a product that is under way."""
    found = dispatches(CASES[name](rng), FEATURES | {"wgmma"})
    texts = {text_of(d)
             for d in found if d.kernel in ("matmul_mma", "moe_mma") and d.constants["WGMMA"]}
    assert texts
    for text in sorted(texts):
        log = compiled(nvrtc, text, "sm_90a")[1]
        assert "0 bytes spill stores" in log, log
        assert "serialized" not in log, log


def test_a_product_whose_registers_are_touched_is_told(nvrtc: Compiler) -> None:
    """The check above sees words that change while they are multiplied."""
    (text,) = {text_of(d)
               for d in dispatches(CASES["F16"](np.random.default_rng(0)), FEATURES | {"wgmma"})
               if d.constants.get("BULK") and d.constants["TN"] == 64}
    assert "serialized" not in compiled(nvrtc, text, "sm_90a")[1]
    touched = text.replace("raw, next);", "raw, (PRIVATE u32 *)a);")
    assert touched != text and "serialized" in compiled(nvrtc, touched, "sm_90a")[1]


def test_what_is_added_is_read_before_products_are_stored(nvrtc: Compiler, rng: Rng) -> None:
    """Sixteen numbers of a thread at a time, so a store waits for no load of the number after it;
    and which row of x a number is of takes no division."""
    m = Maker(rng, 140)
    case = m.case("linear", m.input("T", 256), m.input("T", 256), attrs={"residual": True},
                  weights={"w0": m.weight("w0", 256, 256, quant="F16")})
    (text,) = {text_of(d)
               for d in dispatches(case, FEATURES | {"wgmma"})
               if d.constants.get("BULK") and d.constants["TM"] == 256}
    code = ptx(nvrtc, text, "compute_90a")
    assert not re.search(r"\b(div|rem)\.u32", code)
    end = code[code.rindex("wgmma.mma_async"):]
    found = "".join(re.findall(r"\b([ls])[dt]\.global(?:\.nc)?\.f32", end))
    assert found.count("s") == 128  # whole tiles, and tiles of the last rows
    assert [len(run) for run in re.findall("s+", found)][:4] == [16] * 4, found


@pytest.mark.parametrize("name", CASES)
def test_cubins(name: str, nvrtc: Compiler, rng: Rng) -> None:
    texts = {text_of(d) for d in dispatches(CASES[name](rng))}
    assert texts
    for i, text in enumerate(sorted(texts)):
        log = compiled(nvrtc, text, CHIPS[i % len(CHIPS)])[1]
        spilled = re.search(r"(\d+) bytes spill stores", log)
        assert spilled and int(spilled[1]) <= MOST_SPILLED, log
        assert re.search(r"Used \d+ registers", log)
