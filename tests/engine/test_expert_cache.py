"""Models whose experts are on the CPU, with the most used ones on a device too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.parity import recipes
from tests.parity.recipes import answer, error

import shared_experts
from delayed import DelayedBackend
from delayed import delayed as delayed
from unladen import Model
from unladen.backends import backend_of
from unladen.errors import InvalidArgument

GREEDY: dict[str, Any] = {"temperature": 0.0, "ignore_eos": True}
BOUND = 1e-8
"""The normalized squared error of devices' logits with a float32 cache."""
SOME = {"qwen2moe-moe": "opencl:0", "gpt-oss-moe": "wgpu:0", "deepseek2-moe": "opencl:0",
        "llama4-moe": "wgpu:0"}
"""Recipes with shared experts, with biases, with groups, and with weights of the input; and the
device of each."""


@pytest.fixture
def path(tmp_path: Path, rng: np.random.Generator) -> Path:
    return shared_experts.write(tmp_path / "m.gguf", rng)


@pytest.fixture
def options(delayed: DelayedBackend) -> dict[str, Any]:
    return {"devices": ["delayed:0", "cpu"], "n_gpu_layers": "all", "cpu_moe": True,
            "expert_cache": 3, "kv_type": "f32", "precise": True}


def alone(path: Path) -> Model:
    return Model(path, kv_type="f32", precise=True)


def texts(rng: np.random.Generator, n: int) -> list[list[int]]:
    return [[int(t) for t in rng.integers(10, 250, rng.integers(5, 40))] for _ in range(n)]


@pytest.mark.parametrize("device", ["delayed:0", "opencl:0", "wgpu:0"])
def test_the_same_text_and_what_was_counted(path: Path, options: dict[str, Any], device: str,
                                            rng: np.random.Generator) -> None:
    if not device.startswith("delayed") and not backend_of(device).devices():
        pytest.skip(backend_of(device).why_none())
    options |= {"devices": [device, "cpu"], "speculate": False, "stream_weights": False}
    prompts = texts(rng, 3)
    with alone(path) as model:
        expected = [model.generate(p, max_tokens=40, **GREEDY).tokens for p in prompts]
        assert model.expert_counts() == (0,) * 6
    with Model(path, **options) as model:
        assert [model.generate(p, max_tokens=40, **GREEDY).tokens for p in prompts] == expected
        counts = model.expert_counts()
        shape = shared_experts.SHARED_EXPERTS
        assert (counts.n_experts, counts.n_kept) == (shape.n_layers * shape.n_experts,
                                                     shape.n_layers * 3)
        n_tokens = sum(len(p) + 39 for p in prompts)
        assert counts.n_chosen == n_tokens * shape.n_layers * shape.n_used
        assert 0 < counts.hit_rate < 1 and counts.n_moved > 0
        lines = [x for x in model.placement().splitlines() if " moe " in x]
        assert {x.split()[2] for x in lines} == {device, "cpu:0"}


def test_several_sequences_at_once(path: Path, options: dict[str, Any], rng: np.random.Generator
                                   ) -> None:
    prompts = texts(rng, 5)
    with alone(path) as model:
        expected = [model.generate(p, max_tokens=24, **GREEDY).tokens for p in prompts]
    with Model(path, **options) as model:
        streams = [model.stream(p, max_tokens=24, **GREEDY) for p in prompts]
        for stream in streams:
            list(stream)
        assert [s.result.tokens for s in streams] == expected


def test_cancelled_in_the_middle(path: Path, options: dict[str, Any], rng: np.random.Generator
                                 ) -> None:
    (prompt, other) = texts(rng, 2)
    with alone(path) as model:
        expected = model.generate(prompt, max_tokens=20, **GREEDY).tokens
    with Model(path, **options) as model:
        for n in (1, 3):
            with model.stream(other, max_tokens=40, **GREEDY) as stream:
                for _ in range(n):
                    next(stream)
            list(stream)
            assert stream.result.stop_reason == "cancelled"
        assert model.generate(prompt, max_tokens=20, **GREEDY).tokens == expected


def test_saved_states_know_nothing_of_it(path: Path, options: dict[str, Any],
                                         rng: np.random.Generator) -> None:
    (prompt,) = texts(rng, 1)
    with alone(path) as model:
        state = model.save_state(prompt)
        expected = model.generate(prompt, max_tokens=20, **GREEDY).tokens
    with Model(path, **options) as model:
        assert model.load_state(state) == prompt
        assert model.generate(prompt, max_tokens=20, **GREEDY).tokens == expected
        again = model.save_state(prompt)
    assert len(again) == len(state)
    with alone(path) as model:
        assert model.load_state(again) == prompt
        assert model.generate(prompt, max_tokens=20, **GREEDY).tokens == expected


def test_its_size_changes_while_a_text_is_written(path: Path, options: dict[str, Any],
                                                  rng: np.random.Generator) -> None:
    (prompt,) = texts(rng, 1)
    with alone(path) as model:
        expected = model.generate(prompt, max_tokens=40, **GREEDY).tokens
    with Model(path, **options) as model:
        stream = model.stream(prompt, max_tokens=40, **GREEDY)
        kept = []
        for size, _ in zip((5, 5, 0, "auto", 2), stream, strict=False):
            model.place(expert_cache=size)
            kept.append(model.expert_counts().n_kept // shared_experts.SHARED_EXPERTS.n_layers)
        list(stream)
        assert kept[:3] == [5, 5, 0] and kept[4] == 2
        assert stream.result.tokens == expected


def test_taps_see_the_sum(path: Path, options: dict[str, Any], rng: np.random.Generator) -> None:
    (prompt,) = texts(rng, 1)
    with alone(path) as model:
        names = [n.outputs[0].name for n in model.architecture.build().nodes if n.op == "moe"]
        name = names[1]
        with model.tap(name) as tap:
            model.logits(prompt)
        expected = np.concatenate(tap[name])
    with Model(path, **options) as model:
        with model.tap(name) as tap:
            model.logits(prompt)
        got = np.concatenate(tap[name])
    assert error(got, expected) < BOUND


@pytest.mark.parametrize("size", [-1, 1.5, "all", "", None])
def test_bad_sizes(path: Path, size: object) -> None:
    with pytest.raises(InvalidArgument, match="expert_cache"):
        Model(path, expert_cache=size)  # type: ignore[arg-type]


def test_where_it_does_nothing_it_says_so(path: Path, options: dict[str, Any],
                                          caplog: pytest.LogCaptureFixture) -> None:
    Model(path, **{**options, "cpu_moe": False, "n_cpu_moe": 0}).close()
    assert "expert_cache=3 has no effect" in caplog.text
    caplog.clear()
    Model(path, **options).close()
    assert "has no effect" not in caplog.text


@pytest.mark.parametrize(("name", "device"), SOME.items())
def test_recipes(shared: Path, tmp_path: Path, name: str, device: str) -> None:
    check_recipe(name, tmp_path, device)


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in recipes.with_experts() if n not in SOME])
def test_all_recipes(shared: Path, tmp_path: Path, name: str, delayed: DelayedBackend) -> None:
    check_recipe(name, tmp_path, "delayed:0")


def check_recipe(name: str, folder: Path, device: str) -> None:
    """Another engine's logits, whole and token by token, with contents that change meanwhile."""
    if not device.startswith("delayed") and not backend_of(device).devices():
        pytest.skip(backend_of(device).why_none())
    recipe = recipes.make(name, folder)
    for batch_size, size in ((512, 1), (1, 2)):
        with Model(recipe.path, kv_type="f32", devices=[device, "cpu"], n_gpu_layers="all",
                   cpu_moe=True, expert_cache=size, batch_size=batch_size, precise=True) as model:
            for _ in range(2):
                assert error(answer(model, recipe.tokens), recipe.expected) < BOUND
            assert model.expert_counts().n_kept > 0
