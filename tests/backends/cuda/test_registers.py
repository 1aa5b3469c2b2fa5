"""NVRTC compiles the kernels for every chip, and none takes more than the record says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends.cuda import gate
from backends.cuda.gate import CHIPS
from cases import running
from cases.base import Maker
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.lowering._matrix import TILES_THREADS
from unladen.backends._gpu.lowering._products import MIN_GROUPS
from unladen.backends.cuda.driver import CUDA, chip_named

SECONDS = 20.0
"""How long texts are drawn and compiled; the others are left to make cubins."""


@pytest.fixture(scope="module")
def nvrtc() -> Compiler:
    """NVRTC, or skip."""
    found = gate.nvrtc()
    if found is None:
        pytest.skip("needs pip install nvidia-cuda-nvrtc-cu12")
    return found


@pytest.mark.parametrize("part", ["new", "old"])
def test_some_kernels_on_some_chips(part: str, nvrtc: Compiler, rng: np.random.Generator) -> None:
    """Drawn each time, in a process that a fault of the compiler may end."""
    chips = [f"--chip={chip}" for chip in CHIPS if (chip >= 90) == (part == "new")]
    done = subprocess.run([sys.executable, gate.__file__, *chips, f"--seconds={SECONDS}",
                           f"--seed={rng.integers(1 << 31)}"], text=True, capture_output=True,
                          timeout=800,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert int(done.stderr.split(" compiled")[0]) > 0


def test_the_record_is_of_these_kernels(rng: np.random.Generator) -> None:
    """A record of kernels that are no more would hide a rise."""
    record = gate.load()
    if not record:
        pytest.skip("there is no record of this NVRTC: make cubins CUBINS=--accept")
    assert {chip for each in record.values() for chip in each} == set(map(str, CHIPS))
    chip = int(rng.choice(CHIPS))
    recorded = {name for name, each in record.items() if str(chip) in each}
    assert len(recorded & {t.name for t in gate.texts_for(chip)}) > 0.5 * len(recorded)


def test_a_rise_is_told() -> None:
    record: Mapping[str, Mapping[str, gate.Takes]] = {"k": {"90": (40, 0, 1024)}}
    assert gate.rise("k", 90, (40, 0, 1024), record) == ""
    assert gate.rise("k", 90, (32, 0, 0), record) == ""
    assert gate.rise("k", 80, (99, 9, 9999), record) == ""  # not in the record
    assert gate.rise("k", 90, (41, 8, 1024), record) == (
        "k\n  on sm_90a: 40 registers became 41, 0 spilled bytes became 8")
    assert "doesn't compile for sm_90a: no" in gate.rise("k", 90, "no", record)


def test_what_a_kernel_takes(nvrtc: Compiler) -> None:
    text = ("extern \"C\" __global__ void __launch_bounds__(64) kernel_main(float *y) {"
            "__shared__ float s[64]; s[threadIdx.x] = y[threadIdx.x]; __syncthreads();"
            "y[threadIdx.x] = s[63 - threadIdx.x]; }")
    for chip in (52, *CHIPS):
        found = gate.takes(text, chip)
        assert isinstance(found, tuple) and found[1:] == (0, 256) and 4 < found[0] < 40
    assert "what" in str(gate.takes(text.replace("y[threadIdx.x];", "what;"), 90))


def few(quant: str, chip: int, n_tokens: int, rng: np.random.Generator) -> str:
    """The text of a product of ``n_tokens`` rows of x, with as many threads as one has."""
    m = Maker(rng, n_tokens)
    case = m.case("linear", m.input("T", 1024),
                  weights={"w0": m.weight("w0", 32, 1024, quant=quant)})
    backend = EmulatedBackend(c_texts, features=chip_named(chip).abilities)
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatedProgram)
    size = program.step.pack()[1]
    (d,) = [d for d in program.lowered.dispatches if d.kernel == "matvec" and d.grid(size)]
    assert d.threads == TILES_THREADS
    return c_texts.assemble(d.kernel, d.quant, d.constants, CUDA.port).text


@pytest.mark.parametrize(("quant", "n_tokens"), [
    ("Q4_K", 1), ("Q6_K", 1), ("Q8_0", 1), ("F16", 1), ("Q8_0", 4), ("Q4_K", 4)])
def test_few_rows_have_the_registers_of_two_workgroups(quant: str, n_tokens: int, nvrtc: Compiler,
                                                       rng: np.random.Generator) -> None:
    """The compiler then has room to issue the loads of all chunks before it uses one; otherwise it
    saves registers, and spills some products of Q6_K and F16."""
    for chip in (80, 90):
        text = few(quant, chip, n_tokens, rng)
        free, saved = gate.takes(text, chip), gate.takes(text.replace("(WG, MIN_GROUPS)", "(WG)"),
                                                         chip)
        assert isinstance(free, tuple) and isinstance(saved, tuple)
        assert 0 < free[0] <= 65536 // (MIN_GROUPS * TILES_THREADS) and free[1] == 0
        assert free[0] > saved[0] or n_tokens > 1, chip


def test_only_products_of_tiles_ask_for_registers(rng: np.random.Generator) -> None:
    m = Maker(rng, 4)
    case = m.case("linear", m.input("T", 64), weights={"w0": m.weight("w0", 32, 64, quant="F16")})
    for abilities, asks in ((chip_named(90).abilities, [True, False]), (frozenset(), [False] * 2)):
        program = running.Bench(EmulatedBackend(c_texts, features=abilities), case).program
        assert isinstance(program, EmulatedProgram)
        assert ["MIN_GROUPS" in d.constants for d in program.lowered.dispatches
                if d.kernel == "matvec"] == asks


def test_newer_chips_than_the_compiler_knows(nvrtc: Compiler) -> None:
    chip = chip_named(199)
    target = nvrtc.target(chip)
    assert target is not None and target.startswith("compute_")
    text = 'extern "C" __global__ void kernel_main(float *y) { y[0] = 1.0f; }'
    assert b".version" in nvrtc.binary(Binaries(None), text, target, "k")
    cubin = nvrtc.binary(Binaries(None), text, "sm_90a", "k")
    assert cubin.startswith(b"\x7fELF")


def test_a_compiler_that_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "takes", lambda text, chip: (chip, 0, 0))
    assert gate.apart("", 90) == (90, 0, 0)
    monkeypatch.setattr(gate, "takes", lambda text, chip: os.kill(os.getpid(), signal.SIGKILL))
    assert gate.apart("", 90) == "the compiler ends its process, with -9"
