"""Nodes that the CPU joins make the same logits as separate nodes, to the last bit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factory import Shape, write_model
from unladen import Model
from unladen.backends.cpu import CpuBackend, backend, joining
from unladen.errors import UnsupportedOp
from unladen.graph.graph import Value

N_CTX = 320
LARGE = Shape(n_embd=256, n_ff=2048, n_heads=8, n_kv_heads=2, n_ctx=N_CTX)
ODD = Shape("qwen3", n_embd=160, n_ff=352, n_heads=5, n_kv_heads=5, n_ctx=N_CTX)


def logits(path: Path, texts: Sequence[Sequence[int]], **options: Any) -> list[Any]:
    with Model(path, devices=["cpu"], **options) as model:
        return [model.logits(text) for text in texts]


@pytest.mark.parametrize(("shape", "quant", "n_threads"), [
    (LARGE, "Q4_K", 1), (LARGE, "IQ3_S", 1), (ODD, "Q8_0", 3), (ODD, "Q4_1", 2), (ODD, "F16", 2)])
@pytest.mark.parametrize("deterministic", [False, True])
def test_no_logit_changes(tmp_path: Path, rng: np.random.Generator, level: str, shape: Shape,
                          quant: str, n_threads: int, deterministic: bool,
                          monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf", rng, shape, quant=quant)
    texts = [rng.integers(3, 200, n).tolist() for n in (1, 2, 7, 61, 300)]
    options = {"n_threads": n_threads, "deterministic": deterministic}
    seen: list[joining.Joined] = []
    join = joining.joined

    def watched(*args: Any) -> joining.Joined:
        seen.append(join(*args))
        return seen[-1]
    monkeypatch.setattr(backend, "joined", watched)
    together = logits(path, texts, **options)
    assert len(seen[-1].norms) == 2 * shape.n_layers + 1
    assert len(seen[-1].readers) == shape.n_layers
    monkeypatch.setattr(backend, "joined", lambda *_: joining.Joined({}, {}, {}))
    apart = logits(path, texts, **options)
    for ours, expected in zip(together, apart, strict=True):
        assert np.array_equal(ours.view(np.uint32), expected.view(np.uint32))


def test_too_few_blocks_for_all_threads(tmp_path: Path, rng: np.random.Generator) -> None:
    path = write_model(tmp_path / "m.gguf", rng, LARGE, quant="Q4_K")
    sizes = []
    for n_threads in (1, 2):
        with Model(path, devices=["cpu"], n_threads=n_threads) as model:
            sizes.append(model.engine.plan.blueprint.arena_bytes()["cpu:0"])
    assert sizes[0] < sizes[1]


def test_packed_values_never_leave_their_room(tmp_path: Path, rng: np.random.Generator,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_model(tmp_path / "m.gguf", rng, LARGE, quant="Q4_K")
    stored_bytes = CpuBackend.stored_bytes

    def less(*args: Any) -> dict[Value, int]:
        return {v: n - bool(n) for v, n in stored_bytes(*args).items()}
    monkeypatch.setattr(CpuBackend, "stored_bytes", less)
    with pytest.raises(UnsupportedOp, match="no room for Q4_K"):
        Model(path, devices=["cpu"], n_threads=1)
