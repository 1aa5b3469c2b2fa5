"""What NVIDIA's run-time compiler makes of kernels."""

from __future__ import annotations

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends.cuda.driver import CUDA

PACKAGE = "nvidia.cuda_nvrtc"
"""The module of the compiler's package; the dependency group "test" has it on Linux."""
VERBOSE = "--ptxas-options=-v"


def text_of(d: Dispatch) -> str:
    """The dispatch's kernel as the compiler gets it."""
    return c_texts.assemble(d.kernel, d.quant, d.constants, CUDA.port).text


def compiled(nvrtc: Compiler, text: str, target: str) -> tuple[bytes, str]:
    """The code for ``target``, a chip as "sm_90a" or a version of PTX as "compute_90", and what the
    compiler and ptxas say. Fails where there is none."""
    code, log = nvrtc.attempt(text, (*CUDA.options(target), VERBOSE), target)
    assert code, log
    return code, log


def ptx(nvrtc: Compiler, kernel: Dispatch | str, target: str = "compute_90") -> str:
    """The kernel, or its text, as PTX: before it is assembled for a chip."""
    text = kernel if isinstance(kernel, str) else text_of(kernel)
    return compiled(nvrtc, text, target)[0].decode()
