"""NVIDIA's run-time compiler takes the C family, for old and new chips, without a GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from cases import running
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.lowering import registry

CHIPS = ("sm_75", "sm_90", "sm_120")
MOST = 9
"""Texts of an op that are compiled, drawn each time."""
OPS = sorted(op for op, how in registry().items() if all(map(c_texts.has_kernel, how.kernels)))


@pytest.fixture(scope="module")
def nvrtc() -> Any:
    """The library of the package nvidia-cuda-nvrtc-cu12, or skip."""
    try:
        spec = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        pytest.skip("needs pip install nvidia-cuda-nvrtc-cu12")
    folder = Path(next(iter(spec.submodule_search_locations or [])))
    return ctypes.CDLL(str(next(folder.glob("lib/libnvrtc.so*"))))


def compiled(nvrtc: Any, text: str, chip: str) -> str:
    """What the compiler says of the text; "" if it makes a cubin."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"k.cu", 0, None, None)
    assert made == 0
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={chip}".encode())
    failed = nvrtc.nvrtcCompileProgram(program, 1, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() or "no message" if failed or not size.value else ""


def texts(op: str, rng: np.random.Generator) -> Iterator[str]:
    """Those of a few cases, with all features of the hardware and with none."""
    for features in (frozenset({"subgroups", "int_dot"}), frozenset[str]()):
        backend = EmulatedBackend(c_texts, features=features)
        for case in islice(cases.registry()[op](rng), 0, None, 7):
            if backend.supports(backend.target.device, case.node):
                program = running.Bench(backend, case).program
                assert isinstance(program, EmulatedProgram)
                for d in program.lowered.dispatches:
                    yield c_texts.assemble(d.kernel, d.quant, d.constants,
                                           c_texts.FOLDER / "ports/cuda.h").text


@pytest.mark.parametrize("op", OPS)
def test_cubins(op: str, nvrtc: Any, rng: np.random.Generator) -> None:
    every = sorted(set(texts(op, rng)))
    assert every
    some = rng.choice(len(every), min(MOST, len(every)), replace=False)
    for i, text in enumerate(every[n] for n in some):
        said = compiled(nvrtc, text, CHIPS[i % len(CHIPS)])
        assert not said, said


def test_a_wrong_text_is_told(nvrtc: Any) -> None:
    assert "what" in compiled(nvrtc, "__global__ void f(float *y) { *y = what; }", "sm_90")
