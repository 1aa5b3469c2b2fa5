"""The order of loads in kernels of attention, in what NVIDIA's run-time compiler makes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from backends._gpu.attending import ROUNDED, Attending
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.test_nvrtc_matrices import FEATURES
from backends.nvrtc import ptx
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler

Rng = np.random.Generator


@pytest.fixture
def texts(nvrtc: Compiler, rng: Rng) -> Mapping[str, str]:
    """What the kernels of a decode step become, in which workgroups share keys."""
    case, backend = Attending(rng, [520], n_heads=8), EmulatedBackend(c_texts, features=FEATURES)
    program = case.compiled(backend, joined=True, options=ROUNDED)[0]
    assert isinstance(program, EmulatedProgram)
    _, size = program.step.pack()
    return {d.kernel: ptx(nvrtc, d) for d in program.lowered.dispatches
            if d.grid(size) is not None and d.kernel.startswith("attention")}


def test_keys_and_values_are_asked_for_before_queries(texts: Mapping[str, str]) -> None:
    """And each 16 bytes of them by one instruction, at a distance from one address."""
    before, _, _ = texts["attention_mma"].partition("ld.global.v4")
    copies = re.findall(r"cp\.async\.cg\.shared\.global \[[^]]*\], \[[^]]*\], 16;", before)
    # 32 keys and 32 values of 64 numbers, by 32 threads; K and V are two groups.
    assert len(copies) == 16
    assert before.count("cp.async.commit_group") == 2
    # The words of the step before them: one of its header, the sequence's length, two more of the
    # header, and the block of the cache.
    assert len(re.findall(r"ld\.global\.u32", before.partition("cp.async")[0])) <= 6


def test_shares_are_loaded_before_threads_wait(texts: Mapping[str, str]) -> None:
    """A thread has a column of every fourth share, and one share's sums."""
    before, _, after = texts["attention_join"].partition("bar.sync")
    assert len(re.findall(r"ld\.global\.(?:nc\.)?f32", before)) == 16 + 2
    assert not re.search(r"ld\.global\.(?:nc\.)?f32", after)
