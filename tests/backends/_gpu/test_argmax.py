"""The largest entry of a row: rows of fours and others, with subgroups and without."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.opening import opened
from backends.nvrtc import ptx
from cases import running
from cases.base import Maker
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler
from unladen.backends._gpu.dispatch import Dispatch

Rng = np.random.Generator


@pytest.mark.parametrize("name", ["emulator", "emulator subgroups", "opencl", "wgpu"])
def test_cases(name: str, rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = opened(name, monkeypatch)
    for case in cases.registry()["argmax"](rng):
        running.check(case, running.Bench(backend, case).run(), precise=True, what=name)


def dispatches(n: int, rng: Rng) -> list[Dispatch]:
    m = Maker(rng, 2)
    case = m.case("argmax", m.input("S", n))
    backend = EmulatedBackend(c_texts, features=frozenset({"subgroups", "pdl"}))
    program = running.Bench(backend, case).program
    assert isinstance(program, EmulatedProgram)
    return list(program.lowered.dispatches)


@pytest.mark.parametrize(("n", "loads"), [(40_000, {"v4": 4}), (40_001, {"": 16})])
def test_a_thread_loads_its_share_at_once(n: int, loads: dict[str, int], nvrtc: Compiler,
                                          rng: Rng) -> None:
    """And threads wait for one another once."""
    first, last = dispatches(n, rng)
    text = ptx(nvrtc, first)
    before, _, after = text.partition("redux.sync.max.u32")
    assert text.count("bar.sync") == 1 and "bar.sync" in after
    for vector, count in loads.items():
        found = re.findall(r"\bld\.global(?:\.nc)?\.(v4)?", before)
        assert found.count(vector) == len(found) == count
    assert "ld.global" not in after and text.count("redux.sync.max.u32") == 2
    assert last.threads == 32 and ptx(nvrtc, last).count("bar.sync") == 1
