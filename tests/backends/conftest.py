"""What tests of several backends share."""

from __future__ import annotations

import importlib.util

import pytest

from backends.nvrtc import PACKAGE
from unladen.backends._gpu.cuda_like.compiler import Compiler, compiler_of
from unladen.backends.cuda.driver import CUDA


@pytest.fixture(scope="session")
def nvrtc() -> Compiler:
    """NVIDIA's run-time compiler. Skips where its package isn't installed, and fails where it is
    but the compiler isn't found."""
    found = compiler_of(CUDA)
    if found is None:
        try:
            spec = importlib.util.find_spec(PACKAGE)
        except ModuleNotFoundError:
            spec = None
        assert spec is None, f"{PACKAGE} is installed, and its library isn't found"
        pytest.skip("needs pip install nvidia-cuda-nvrtc-cu12")
    return found
