"""Numbers that a cache's type can't hold, and results that aren't finite, are errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.backends import backend_of
from unladen.errors import NotFinite, UnladenError

gguf = pytest.importorskip("gguf")

IDS = [4, 5, 9, 3, 7, 11, 8]
MakeModel = Callable[..., Path]


def scaled(path: Path, name: str, factor: float) -> Path:
    """``path``, with the weights called ``name`` in every layer multiplied."""
    reader = gguf.GGUFReader(path, "r+")
    found = [t for t in reader.tensors if t.name.endswith(name)]
    assert found
    for tensor in found:
        tensor.data[:] *= np.float32(factor)
    reader.data.flush()
    return path


@pytest.mark.parametrize("device", ["cpu", "reference", "wgpu"])
@pytest.mark.parametrize("kv_type", ["f16", "q8_0", ("f16", "f32"), ("f32", "f16")])
@pytest.mark.parametrize("name", ["attn_k.weight", "attn_v.weight"])
def test_beyond_the_cache(make_model: MakeModel, name: str, kv_type: str | tuple[str, str],
                          device: str) -> None:
    if device == "wgpu" and not backend_of(device).devices():
        pytest.skip(f"{device} has no device here")
    path = scaled(make_model(n_embd=64, n_heads=2), name, 1e9)
    truth = Model(path, kv_type="f32", devices=[device]).logits(IDS)
    assert np.isfinite(truth).all()
    model = Model(path, kv_type=kv_type, devices=[device])
    holds = isinstance(kv_type, tuple) and (kv_type[0] == "f32") == (name == "attn_k.weight")
    calls: list[Callable[[], object]] = [
        lambda: model.logits(IDS),
        lambda: model.generate(IDS, max_tokens=2, temperature=0.0),
        lambda: model.generate(IDS, max_tokens=2, temperature=1.0),
        lambda: model.generate([IDS, IDS[::-1]], max_tokens=2),
        lambda: model.save_state(IDS)]
    for call in calls:
        if holds:
            call()
            continue
        with pytest.raises(UnladenError, match="kv_type"):
            call()


def test_damaged_weights(make_model: MakeModel) -> None:
    path = scaled(make_model(), "ffn_down.weight", np.nan)
    with pytest.raises(NotFinite, match=r"7 of 7 rows of logits .*check_tensors"):
        Model(path, kv_type="f32").logits(IDS)
    with pytest.raises(UnladenError, match="check_tensors"):
        Model(path).generate(IDS, max_tokens=2)
