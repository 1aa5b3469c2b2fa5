"""The contents by the header equal those of the loaded model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.errors import GGUFError
from unladen.measure.contents import contents


@pytest.mark.parametrize("n_ctx", [96, 2048, 2049, 5000])
def test_memory_is_that_of_the_loaded_model(make_model: Callable[..., Path], n_ctx: int) -> None:
    path = make_model(n_ctx=n_ctx)
    with contents(path).file:
        found = contents(path)
    lengths = [m.n_tokens for m in found.memory]
    assert lengths == [n for n in (2048, 4096) if n < n_ctx] + [n_ctx]
    for memory in found.memory:
        for kv_type, n_bytes in memory.kv_bytes.items():
            if n_bytes is None:
                with pytest.raises(ValueError, match="no whole number"):
                    Model(path, kv_type=kv_type, context_size=memory.n_tokens)
                continue
            with Model(path, kv_type=kv_type, context_size=memory.n_tokens,
                       cache_tokens=memory.n_tokens, devices=["cpu"]) as model:
                (device,) = model.memory().devices
                assert device.kv_bytes == n_bytes
    assert found.memory[0].kv_bytes["q8_0"] is None  # heads of 8


def test_types_and_totals(make_model: Callable[..., Path]) -> None:
    path = make_model(quant="Q8_0")
    with contents(path).file as file:
        found = contents(path)
        assert [t.quant for t in found.types] == ["Q8_0", "F32"]
        assert sum(t.n_tensors for t in found.types) == len(file.tensors)
        assert found.n_bytes == sum(t.nbytes for t in file.tensors.values())
        assert found.file_bytes == path.stat().st_size
    assert (found.problems, found.arch) == ((), "llama")
    assert found.tokenizer is not None and found.tokenizer.eog_ids == {2}


@pytest.mark.parametrize(("change", "words"), [
    ({"arch": "abacus"}, ["'abacus' isn't implemented"]),
    ({"without": ["blk.1.ffn_up.weight"]}, ["blk.1.ffn_up.weight is missing"]),
    ({"keys": {"tokenizer.ggml.model": "runes"}}, ["'runes' isn't implemented"]),
    ({"arch": "abacus", "tokenizer": False}, ["'abacus'", "tokenizer.ggml.model is missing"])])
def test_problems(make_model: Callable[..., Path], change: dict, words: list[str]) -> None:
    found = contents(make_model(**change))
    assert len(found.problems) == len(words)
    for problem, word in zip(found.problems, words, strict=True):
        assert word in problem
    assert bool(found.memory) == (words[0] == "'runes' isn't implemented")


def test_what_is_no_model_is_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    (tmp_path / "x.gguf").write_bytes(rng.bytes(100))
    with pytest.raises(GGUFError):
        contents(tmp_path / "x.gguf")
