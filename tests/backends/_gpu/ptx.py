"""Kernels as NVIDIA's compiler sees them, before they are assembled for a chip."""

from __future__ import annotations

import pytest

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import compiler_of
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends.cuda.driver import CUDA

TARGET = "compute_90"


def ptx(d: Dispatch) -> str:
    """The dispatch's kernel as PTX; skips where NVRTC isn't installed."""
    compiler = compiler_of(CUDA)
    if compiler is None:
        pytest.skip("needs pip install nvidia-cuda-nvrtc-cu12")
    text = c_texts.assemble(d.kernel, d.quant, d.constants, CUDA.port).text
    return compiler.compiled(text, TARGET, f"cuda: kernel {d.kernel}").decode()
