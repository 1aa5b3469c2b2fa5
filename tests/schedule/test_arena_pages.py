"""An arena's pages are given back between steps of many tokens and of few, and no step notices."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._host import HostBuffer, clear, host
from unladen.backends.base import Options
from unladen.schedule import plan

on_linux = pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="others can't")


@on_linux
@pytest.mark.parametrize("huge_pages", [False, True])
def test_clear_gives_back_a_buffers_own_memory(huge_pages: bool) -> None:
    backend = backend_of("cpu")
    device = backend.open("cpu", Options())
    buffer, other = (host(backend.alloc(device, 3 << 20, "arena")) for _ in range(2))
    buffer.data[:], other.data[:] = 1, 2
    clear(buffer, huge_pages=huge_pages)
    assert not buffer.data.any() and (other.data == 2).all()
    buffer.data[:] = 3
    assert (buffer.data == 3).all()


def test_clear_leaves_others_memory_alone() -> None:
    device = backend_of("cpu").open("cpu", Options())
    own = np.ones(1 << 20, np.uint8)
    clear(HostBuffer(device, own), huge_pages=False)
    assert own.all()


def test_steps_of_all_sizes_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng()
    path = write_tiny(tmp_path / "tiny.gguf", rng)
    texts = [rng.integers(3, 250, n).tolist() for n in (plan.MANY_TOKENS + 40, 5, 100, 3)]

    def written() -> list[tuple[str, list[int]]]:
        with Model(path, devices=["cpu"]) as model:
            found = [model.generate(t, max_tokens=12, temperature=0.0) for t in texts]
            return [(c.text, model.logits(texts[0])[-1].tolist()) for c in found]
    expected = written()
    cleared = []

    def counted(buffer: HostBuffer, *, huge_pages: bool) -> None:
        cleared.append(huge_pages)
        clear(buffer, huge_pages=huge_pages)
    monkeypatch.setattr(plan, "MUCH_MEMORY", 0)
    monkeypatch.setattr(plan, "clear", counted)
    assert written() == expected
    assert cleared[:4] == [False, True, False, True], "both ways, and not at every step"
