"""Tokens that the device chooses are those that the host would choose from whole rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.base import Maker
from cases.running import Bench
from unladen import Model
from unladen.backends import backend_of
from unladen.graph.ops import get_op

GREEDY = {"temperature": 0.0}


@pytest.mark.parametrize(("op", "attrs"), [("argmax", {}), ("top_k", {"k": 256})])
def test_rows_that_no_model_should_make(op: str, attrs: dict[str, int], rng: np.random.Generator
                                        ) -> None:
    m = Maker(rng, 60)
    x = rng.choice(np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -2]),
                   m.shape(("S", 5000)))
    x[::2] = np.where(np.isfinite(x[::2]), x[::2], -np.inf)
    x = x.astype(np.float32)
    case = m.case(op, m.input("S", 5000, values=x), attrs=attrs)
    wanted = get_op(op).reference(case.node, [x.astype(np.float64)], None)  # type: ignore[arg-type]
    for mine, expected in zip(Bench(backend_of("wgpu"), case).run(), wanted, strict=True):
        assert np.array_equal(mine, expected)


def whole_rows(model: Model) -> Model:
    plan: Any = model.engine.plan
    plan.n_best, plan.runs_ahead = {}, False
    return model


def results(model: Model, prompts: list[list[int]]) -> list[tuple[list[int], str, str | None]]:
    """Requests of all kinds, some together, some ending while others are in the middle."""
    seeded = {"temperature": 1.2, "min_p": 0.0, "seed": 11}
    wishes: list[dict[str, Any]] = [
        {**GREEDY, "max_tokens": 40}, {**GREEDY, "max_tokens": 7}, {**GREEDY, "max_tokens": 35}]
    streams = [model.stream(p, **w) for p, w in zip(prompts, wishes, strict=True)]
    for _ in range(4):
        next(streams[0], None)
    streams += [model.stream(prompts[0], max_tokens=12, **w) for w in (
        {**seeded, "top_k": 40}, {**seeded, "top_k": 1}, {**seeded, "top_k": 256}, GREEDY)]
    for stream in streams:
        list(stream)
    streams.append(model.stream(prompts[1], max_tokens=30, top_k=50, seed=3))
    list(streams[-1])
    return [(s.result.tokens, s.result.text, s.result.stop_reason) for s in streams]


def check(path: Path, rng: np.random.Generator, n_vocab: int) -> None:
    prompts = [rng.integers(3, n_vocab, n).tolist() for n in (1, 40, 9)]
    with (Model(path, devices=["wgpu:0"]) as model,
          Model(path, devices=["wgpu:0"]) as other):
        plan = model.engine.plan
        assert plan.runs_ahead and plan.n_best == {"argmax": 1, "top_k": min(256, n_vocab)}
        assert results(model, prompts) == results(whole_rows(other), prompts)
        pool: Any = model.engine.pool
        assert pool.n_available == pool.n_blocks


def test_token_for_token(make_model: Callable[..., Path], rng: np.random.Generator) -> None:
    check(make_model("llama", n_embd=64), rng, 256)


def test_stories(shared: Path, rng: np.random.Generator) -> None:
    check(shared / "models/stories260K-f32.gguf", rng, 512)


def test_several_segments_read_what_the_device_chose(make_model: Callable[..., Path]) -> None:
    """The head's device chooses; no step runs ahead, since others stand between."""
    path = make_model("llama", n_embd=64)
    found = []
    for devices in (["cpu", "wgpu:0"], ["wgpu:0", "wgpu:1"]):
        with Model(path, devices=devices, kv_type="f32", n_gpu_layers=1, offload_order="last",
                   ) if devices[0] == "cpu" else Model(
                       path, devices=devices, kv_type="f32", tensor_split=[1, 1]) as model:
            plan = model.engine.plan
            assert set(plan.n_best) == {"argmax", "top_k"} and not plan.runs_ahead
            found.append(model.generate([5, 6, 7], max_tokens=20, **GREEDY).tokens)
    with Model(path, kv_type="f32") as model:
        assert found == 2 * [model.generate([5, 6, 7], max_tokens=20, **GREEDY).tokens]
