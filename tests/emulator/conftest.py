"""Fixtures of the emulator's tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from emulator import build
from emulator.backend import run
from emulator.small import WARP, Array, Launch
from unladen.backends._gpu import c_texts


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
