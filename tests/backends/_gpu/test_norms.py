"""Kernels of norms: rows that registers don't hold, and what is loaded before threads wait for one
another."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.opening import opened
from backends._gpu.rounding import Rounding
from backends.nvrtc import ptx
from cases import running
from cases.base import Case, Maker
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends.base import Backend

Rng = np.random.Generator
FEATURES = frozenset({"subgroups", "int_dot", "mma", "pdl"})
LOAD, BARRIER = r"\bld\.global\S*\.v4\.\S+", "bar.sync"


@pytest.fixture(params=["emulator int_dot subgroups", "emulator int_dot subgroups mma pdl",
                        "opencl int_dot", "wgpu int_dot"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """A backend whose threads keep one item of a row."""
    monkeypatch.setattr("unladen.backends._gpu.lowering.rms_norm.MOST_KEPT", 1)
    return opened(request.param, monkeypatch)


def test_long_rows_are_rounded(backend: Backend, rng: Rng) -> None:
    case = Rounding(rng, ["Q8_0"], 3, n_in=(1280,), n_out=(64,))
    (wanted,), (bound,) = case.on_paper()
    kernels, (y,) = case.on(backend, joined=True)
    assert kernels[0] == "norm_quantize" and np.all(np.abs(y - wanted) <= bound)


def test_long_rows(backend: Backend, rng: Rng) -> None:
    for case in cases.registry()["rms_norm"](rng):
        running.check(case, running.Bench(backend, case).run(), precise=False, what=backend.name)


def norm_and_rounding(rng: Rng) -> Dispatch:
    backend = EmulatedBackend(c_texts, features=FEATURES)
    program, _, _ = Rounding(rng, ["Q8_0"], 2, n_in=(1280,), n_out=(64,)).compiled(
        backend, joined=True)
    assert isinstance(program, EmulatedProgram)
    return next(d for d in program.lowered.dispatches if d.kernel == "norm_quantize")


def norm(rng: Rng) -> Dispatch:
    m = Maker(rng, 2)
    case: Case = m.case("rms_norm", m.input("T", 1280), weights={"w": m.weight("w", 1280)},
                        attrs={"eps": 1e-5})
    program = running.Bench(EmulatedBackend(c_texts, features=FEATURES), case).program
    assert isinstance(program, EmulatedProgram)
    return program.lowered.dispatches[0]


@pytest.mark.parametrize("made", [norm_and_rounding, norm])
def test_norms_load_rows_and_weights_before_they_add(made: object, nvrtc: Compiler,
                                                      rng: Rng) -> None:
    assert callable(made)
    d = made(rng)
    text = ptx(nvrtc, d)
    assert d.constants["KEPT"] == 2 and not d.constants["LONGER"]
    before, _, after = text.partition(BARRIER)
    assert after
    assert len(re.findall(LOAD, before)) == 4 and "ld.global" not in after
    # Weights are asked for while the launch before ends.
    early, waits, late = before.partition("griddepcontrol.wait")
    assert waits and early.count("bulk.prefetch.L2") == 1
    assert "ld.global" not in early and "prefetch" not in late


def test_rounded_rows_are_stored_side_by_side(nvrtc: Compiler, rng: Rng) -> None:
    """A thread takes four columns; eight of them meet by shuffles, without a barrier more."""
    text = ptx(nvrtc, norm_and_rounding(rng))
    assert text.count("bar.sync") == 2 and "st.shared" in text
    _, _, after = text.rpartition("bar.sync")
    assert after.count("shfl.sync.bfly") == 2 * (3 + 2)
    assert "cvt.rni" not in after
