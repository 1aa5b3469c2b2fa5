"""Fixtures of the emulator's tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulator import backend, build
from emulator.backend import run
from emulator.small import WARP, Array, Launch, Ran
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Lowered
from unladen.backends._gpu.step import Step
from unladen.backends._gpu.target import Target
from unladen.backends.base import Segment


@pytest.fixture(autouse=True)
def _orders(rng: np.random.Generator) -> None:
    """The orders of threads follow from a printed seed also where a test draws nothing."""


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Runs a kernel of one workgroup: words of x in, words of y out."""
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(tmp_path, ".h", "c"))

    def go(body: str, x: Array, n_out: int, order: int = 0, threads: int = WARP) -> Array:
        (tmp_path / "small.h").write_text(
            "#bind in u32 x\n#bind out u32 y\n#shared u4 tile 32\n"
            "#shared u4 wide 256\n#shared u2 there 2\n\nKERNEL(small) {\n" + body
            + "\n}\n")
        source = c_texts.assemble("small", "", {"WG": threads}, build.PORT)
        y = np.zeros(n_out, np.uint32)
        run(source, {"x": np.ascontiguousarray(x).view(np.uint8).reshape(-1),
                     "y": y.view(np.uint8)}, (1, 1, 1), threads, order, 1)
        return y
    return go


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The kernels that the step of the last case needs. The emulator compiles no others."""
    whole, found = backend.lower, Ran()

    def lower(target: Target, segment: Segment) -> Lowered:
        lowered = whole(target, segment)
        _, size = Step(segment.batch, segment.limits, lowered.tables, lowered.n_kv_heads,
                       lowered.tile_tokens, lowered.split_keys).pack()
        kept = [d for d in lowered.dispatches if d.grid(size) is not None]
        found[:] = [(d.kernel, d.constants) for d in kept]
        return replace(lowered, dispatches=kept)
    monkeypatch.setattr(backend, "lower", lower)
    return found
