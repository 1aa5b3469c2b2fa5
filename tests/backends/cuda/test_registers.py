"""NVRTC compiles the kernels for every chip, and none takes more than the record says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from backends.cuda import gate
from backends.cuda.gate import CHIPS
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends.cuda.driver import chip_named

SECONDS = 20.0
"""How long texts are drawn and compiled; the others are left to make cubins."""


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
