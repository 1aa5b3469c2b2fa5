"""Keys are computed again where a longer context rotates them by other angles (longrope)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.errors import InvalidArgument

TRAINED = 64


@pytest.fixture
def path(make_model: Callable[..., Path], rng: np.random.Generator) -> Path:
    factors = {f"rope_factors_{kind}.weight": rng.uniform(low, 2 * low, 4).astype(np.float32)
               for kind, low in (("short", 1.0), ("long", 8.0))}
    return make_model("phi3", extra=factors, n_ctx=160, keys={
        "phi3.rope.scaling.original_context_length": TRAINED})


@pytest.mark.parametrize(("first", "then"), [(TRAINED, 160), (160, TRAINED)])
def test_a_plan_across_the_border(path: Path, first: int, then: int, rng: np.random.Generator
                                  ) -> None:
    prompt = [int(t) for t in rng.integers(3, 272, 33)]
    with Model(path, kv_type="f32", context_size=first) as model:
        stream = model.stream(prompt, max_tokens=20, temperature=0.0, ignore_eos=True)
        while len(stream.result.tokens) < 6:
            next(stream)
        model.place(context_size=then)
        before = len(stream.result.tokens)
        list(stream)
        found = stream.result.tokens
    with Model(path, kv_type="f32", context_size=then) as fresh:
        wanted = fresh.generate(prompt + found[:before], max_tokens=20 - before, temperature=0.0,
                                ignore_eos=True)
    assert found[before:] == wanted.tokens
    assert found[before:]


def test_a_state_from_beyond_the_border(path: Path, rng: np.random.Generator) -> None:
    tokens = [int(t) for t in rng.integers(3, 272, 40)]
    with Model(path, context_size=TRAINED) as model:
        data = model.save_state(tokens)
    with Model(path, context_size=TRAINED - 1) as model:
        assert model.load_state(data) == tokens
    refused = pytest.raises(InvalidArgument, match="rotated in another way")
    with Model(path, context_size=TRAINED + 1) as model, refused:
        model.load_state(data)
